// The smallest program that embeds Lamina: AlexNet's first layer on a photograph.
//   embed MODEL PHOTO

#include <lamina/lamina.h>

#include <cstdio>

int main(int argc, char** argv) try {
  if (argc != 3) {
    std::fprintf(stderr, "usage: embed MODEL PHOTO\n");
    return 2;
  }
  lamina::Model model = lamina::load_model(argv[1]);
  if (!model.preprocess) model.preprocess = lamina::torchvision_imagenet();  // most .onnx files do not say it
  lamina::Plan plan = model.graph.compile({.device = lamina::best_device()});
  const lamina::Tensor image = lamina::load_image(argv[2], *model.preprocess);
  const lamina::Tensor maps = plan.run(image);  // a view, valid until the next run
  float strongest = 0;
  for (const float value : maps.values<float>()) strongest = value > strongest ? value : strongest;
  std::printf("%s: feature maps %s, strongest activation %.2f\n", argv[2], maps.shape().to_string().c_str(), strongest);
} catch (const lamina::Error& error) {
  std::fprintf(stderr, "embed: %s\n", error.what());
  return 1;
}
