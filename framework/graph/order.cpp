#include "lamina/graph/order.h"

#include <cstddef>
#include <functional>
#include <queue>

namespace lamina::detail {

std::vector<int> in_order(const std::vector<std::vector<int>>& inputs) {
  std::vector<std::vector<int>> users(inputs.size());
  std::vector<std::size_t> missing;
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;  // gives the list's first place first
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    missing.push_back(inputs[i].size());
    if (inputs[i].empty()) ready.push(static_cast<int>(i));
    for (const int input : inputs[i]) users[static_cast<std::size_t>(input)].push_back(static_cast<int>(i));
  }
  std::vector<int> order;
  while (!ready.empty()) {
    order.push_back(ready.top());
    ready.pop();
    for (const int user : users[static_cast<std::size_t>(order.back())]) {
      if (--missing[static_cast<std::size_t>(user)] == 0) ready.push(user);
    }
  }
  return order;
}

}  // namespace lamina::detail
