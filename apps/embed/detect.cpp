// What is in a photograph, by an export of YOLO or RT-DETR.
//   embed_detect MODEL PHOTO

#include <lamina/detect/detector.h>
#include <lamina/lamina.h>

#include <cstdio>

int main(int argc, char** argv) try {
  if (argc != 3) return std::fprintf(stderr, "usage: embed_detect MODEL PHOTO\n"), 2;
  const lamina::Detector detector(lamina::load_model(argv[1]), {.compile = {.device = lamina::best_device()}});
  for (const lamina::Detection& d : detector.detect(lamina::read_image(argv[2], lamina::as_seen)).found) {
    std::printf("%s %.2f at %.1f %.1f %.1f %.1f\n", detector.name(d.label).c_str(), static_cast<double>(d.score),
                static_cast<double>(d.box.left), static_cast<double>(d.box.top), static_cast<double>(d.box.right),
                static_cast<double>(d.box.bottom));
  }
} catch (const lamina::Error& error) {
  std::fprintf(stderr, "embed_detect: %s\n", error.what());
  return 1;
}
