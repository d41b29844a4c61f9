// Clients of `lamina serve` that cost little: tensors of one image, a blocking socket and a thread for each client. Prints
// images/s, p50 and p99 of the answers, and the processor time that the clients took themselves.
//   g++ -O2 -std=c++20 -o serve_clients scripts/race/serve_clients.cpp -pthread
//   taskset -c 8-15 ./serve_clients PORT MODEL CLIENTS SECONDS [CHANNELS HEIGHT WIDTH]
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

using Clock = std::chrono::steady_clock;

int main(int argc, char** argv) {
  const int port = std::atoi(argv[1]), clients = std::atoi(argv[3]);
  const std::string model = argv[2];
  const double seconds = std::atof(argv[4]);
  const int c = argc > 7 ? std::atoi(argv[5]) : 3, h = argc > 7 ? std::atoi(argv[6]) : 224,
            w = argc > 7 ? std::atoi(argv[7]) : 224;
  const std::string tensor(std::size_t(4) * c * h * w, '\0');
  const std::string json =
      "{\"inputs\":[{\"name\":\"input\",\"shape\":[1," + std::to_string(c) + "," + std::to_string(h) + "," +
      std::to_string(w) +
      "],\"datatype\":\"FP32\",\"parameters\":{\"binary_data_size\":" + std::to_string(tensor.size()) +
      "}}],\"parameters\":{\"binary_data_output\":true}}";
  const std::string head = "POST /v2/models/" + model + "/infer HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(port) +
                           "\r\nInference-Header-Content-Length: " + std::to_string(json.size()) +
                           "\r\nContent-Length: " + std::to_string(json.size() + tensor.size()) + "\r\n\r\n" + json;
  const auto begin = Clock::now() + std::chrono::milliseconds(1500),
             end = begin + std::chrono::microseconds(long(seconds * 1e6));
  std::mutex mutex;
  std::vector<double> times;
  std::atomic<long> others = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < clients; ++i) {
    threads.emplace_back([&] {
      const int s = ::socket(AF_INET, SOCK_STREAM, 0), yes = 1;
      ::setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
      sockaddr_in address{};
      address.sin_family = AF_INET;
      address.sin_port = htons(static_cast<unsigned short>(port));
      address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      if (::connect(s, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return void(++others);
      std::vector<double> own;
      std::vector<char> answer(1 << 20);
      for (auto start = Clock::now(); start < end; start = Clock::now()) {
        iovec parts[2] = {{const_cast<char*>(head.data()), head.size()},
                          {const_cast<char*>(tensor.data()), tensor.size()}};
        for (iovec* at = parts; at < parts + 2;) {
          ssize_t sent = ::writev(s, at, int(parts + 2 - at));
          if (sent <= 0) return void(++others);
          while (at < parts + 2 && sent >= ssize_t(at->iov_len)) sent -= ssize_t((at++)->iov_len);
          if (at < parts + 2) at->iov_base = static_cast<char*>(at->iov_base) + sent, at->iov_len -= std::size_t(sent);
        }
        std::size_t have = 0, need = 0;
        while (need == 0 || have < need) {
          const ssize_t got = ::recv(s, answer.data() + have, answer.size() - have - 1, 0);
          if (got <= 0) return void(++others);
          have += std::size_t(got);
          answer[have] = 0;
          if (need == 0) {
            const char* blank = std::strstr(answer.data(), "\r\n\r\n");
            if (blank == nullptr) continue;
            const char* length = strcasestr(answer.data(), "\r\nContent-Length:");
            if (length == nullptr) return void(++others);
            need = std::size_t(blank + 4 - answer.data()) + std::size_t(std::atol(length + 17));
          }
        }
        if (std::strncmp(answer.data() + 9, "200", 3) != 0) {
          if (others++ == 0) std::fprintf(stderr, "%.200s\n", answer.data());
          continue;
        }
        if (start >= begin) own.push_back(std::chrono::duration<double>(Clock::now() - start).count());
      }
      const std::lock_guard lock(mutex);
      times.insert(times.end(), own.begin(), own.end());
      ::close(s);
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (times.empty()) return std::puts("no answer"), 1;
  std::sort(times.begin(), times.end());
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  std::printf(
      "%.0f images/s, p50 %.2f ms, p99 %.2f ms; %ld others; the clients' processors %.1f s + %.1f s in the kernel\n",
      double(times.size()) / seconds, 1e3 * times[times.size() / 2], 1e3 * times[times.size() * 99 / 100],
      others.load(), double(used.ru_utime.tv_sec) + 1e-6 * double(used.ru_utime.tv_usec),
      double(used.ru_stime.tv_sec) + 1e-6 * double(used.ru_stime.tv_usec));
}
