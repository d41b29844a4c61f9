#ifndef LAMINA_C_H
#define LAMINA_C_H

/// Lamina for C11, and for every language that calls C. examples/c is a complete program; docs/embedding.md has the
/// rules.
///
///   lamina_model* model = NULL;
///   if (lamina_model_load("net.onnx", &model) != LAMINA_OK) fprintf(stderr, "%s\n", lamina_last_error());
///
/// What can fail returns a lamina_status, and leaves what it was to write as it was unless that is LAMINA_OK; no C++
/// exception comes across. What is here stays as it is: later versions only append.

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define LAMINA_C_API
#else
#define LAMINA_C_API __attribute__((visibility("default")))
#endif

/// Of what this header declares; lamina_c_version() is that of the library which runs, and may be a later one.
#define LAMINA_C_VERSION 1

#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t lamina_status;
enum {
  LAMINA_OK = 0,
  LAMINA_ERROR = 1,         ///< a file, a model or an input is not what it should be, or the device failed
  LAMINA_OUT_OF_MEMORY = 2  ///< the host's
};

/// Types of elements.
typedef int32_t lamina_dtype;
enum {
  LAMINA_BOOL = 0,
  LAMINA_U8 = 1,
  LAMINA_I8 = 2,
  LAMINA_U16 = 3,
  LAMINA_I16 = 4,
  LAMINA_U32 = 5,
  LAMINA_I32 = 6,
  LAMINA_U64 = 7,
  LAMINA_I64 = 8,
  LAMINA_F16 = 9,
  LAMINA_BF16 = 10,
  LAMINA_F32 = 11,
  LAMINA_F64 = 12
};

#define LAMINA_MAX_RANK 8
#define LAMINA_BATCH (-1)  ///< in a model's shapes: the batch
#define LAMINA_OPEN (-2)   ///< in a model's shapes: what lamina_compile_options.input_shapes has to say

#define LAMINA_HOST 0
#define LAMINA_CUDA(index) ((index) + 1)

/// A network, its weights, and what its file says of photographs and classes. Threads may share one.
typedef struct lamina_model lamina_model;
/// A model compiled for one device, batch and precision. One thread at a time may use it; compile one for each, they
/// share the weights. It outlives its model.
typedef struct lamina_plan lamina_plan;

/// Elements in memory of somebody's, dense and row-major. Images are [N, C, H, W].
typedef struct lamina_tensor {
  void* data;
  int64_t shape[LAMINA_MAX_RANK];
  int32_t rank;
  lamina_dtype dtype;
  int32_t device;    ///< where `data` is: LAMINA_HOST, or LAMINA_CUDA(0)
  int32_t reserved;  ///< 0
} lamina_tensor;

/// What a model or a plan takes or gives. Lives as long as that does.
typedef struct lamina_port {
  const char* name;
  int64_t shape[LAMINA_MAX_RANK];
  int32_t rank;  ///< -1: of a model's output, only compiling tells; of its input, lamina_compile_options.input_shapes
  lamina_dtype dtype;
} lamina_port;

/// All but `size` may be 0: {.size = sizeof(lamina_compile_options), .batch = 8}.
typedef struct lamina_compile_options {
  size_t size;                      ///< sizeof(lamina_compile_options)
  int64_t batch;                    ///< 0: 1
  const char* device;               ///< "cpu", "cuda", "cuda:1"; NULL or "auto": a GPU if there is one
  const char* precision;            ///< "fp32" (NULL), "tf32", "fp16", "bf16"
  const char* input_format;         ///< how you store f32 inputs: "f32" (NULL), "f16,nhwc"
  const char* output_format;        ///< likewise
  const lamina_port* input_shapes;  ///< names and shapes of inputs that the model leaves open
  size_t input_shape_count;
  int32_t threads;          ///< of a CPU; 0: one for each core
  int32_t batch_invariant;  ///< not 0: on a GPU too an image's bits do not depend on its batch
  /// Values, on the host, of inputs that shapes, axes or weights depend on, and their names: they are inputs no more.
  const lamina_tensor* constants;
  const char* const* constant_names;
  size_t constant_count;
} lamina_compile_options;

/// Of a pixel, 8 bits a sample.
typedef int32_t lamina_pixel_format;
enum {
  LAMINA_RGB = 0,
  LAMINA_BGR = 1,
  LAMINA_RGBA = 2,
  LAMINA_BGRA = 3,
  LAMINA_GRAY = 4,
  LAMINA_NV12 = 5  ///< a plane of Y, then one of U and V in turn
};

/// A picture in memory of yours, such as a camera's frame.
typedef struct lamina_picture {
  const uint8_t* data;    ///< the top row
  const uint8_t* chroma;  ///< of LAMINA_NV12; NULL: right after the rows of Y
  int64_t stride;         ///< bytes from one row to the next; 0: they follow each other
  int32_t width, height;
  lamina_pixel_format format;
  int32_t reserved;  ///< 0
} lamina_picture;

/// A class and how probable it is.
typedef struct lamina_scored {
  int32_t index;
  float score;
} lamina_scored;

/// Of the library that runs: LAMINA_C_VERSION, and "0.2.0".
LAMINA_C_API int32_t lamina_c_version(void);
LAMINA_C_API const char* lamina_version(void);
/// What went wrong in the last call of this thread that did not return LAMINA_OK: where, what was expected, what was
/// found. Valid until the next that does not.
LAMINA_C_API const char* lamina_last_error(void);

/// Opens a model file of Lamina's, or an .onnx file.
LAMINA_C_API lamina_status lamina_model_load(const char* path, lamina_model** model);
/// One of the ready-made networks, such as "alexnet" or "resnet18", with a file of weights: .safetensors, or PyTorch's
/// .pth. classes: 0 for 1000.
LAMINA_C_API lamina_status lamina_model_load_network(const char* network, int32_t classes, const char* weights,
                                                     lamina_model** model);
LAMINA_C_API void lamina_model_free(lamina_model* model);

LAMINA_C_API lamina_status lamina_model_inputs(const lamina_model* model, const lamina_port** ports, size_t* count);
LAMINA_C_API lamina_status lamina_model_outputs(const lamina_model* model, const lamina_port** ports, size_t* count);
/// Names of the classes, by number. None where the model does not say. They live as long as the model.
LAMINA_C_API lamina_status lamina_model_labels(const lamina_model* model, const char* const** labels, size_t* count);

/// options: NULL for the defaults.
LAMINA_C_API lamina_status lamina_model_compile(const lamina_model* model, const lamina_compile_options* options,
                                                lamina_plan** plan);
LAMINA_C_API void lamina_plan_free(lamina_plan* plan);

/// All extents are numbers.
LAMINA_C_API lamina_status lamina_plan_inputs(const lamina_plan* plan, const lamina_port** ports, size_t* count);
LAMINA_C_API lamina_status lamina_plan_outputs(const lamina_plan* plan, const lamina_port** ports, size_t* count);
/// A table of the steps and their kernels, for people. Lives as long as the plan.
LAMINA_C_API lamina_status lamina_plan_summary(const lamina_plan* plan, const char** text);

/// Runs on inputs in the order of lamina_plan_inputs, and fills in as many outputs as the plan has: with views into the
/// plan that its next run overwrites. Fewer images than the batch may be given; the outputs are then of so many. Inputs
/// are on the host, or on the plan's GPU: then the work is enqueued on `stream` (a cudaStream_t; NULL: the default one)
/// and the outputs are there.
LAMINA_C_API lamina_status lamina_plan_run(lamina_plan* plan, const lamina_tensor* inputs, size_t input_count,
                                           lamina_tensor* outputs, size_t output_count, void* stream);
/// The same into memory of yours, which is no input's and no other output's: outputs with data, shape, type and device.
LAMINA_C_API lamina_status lamina_plan_run_into(lamina_plan* plan, const lamina_tensor* inputs, size_t input_count,
                                                const lamina_tensor* outputs, size_t output_count, void* stream);

/// Says how photographs become the model's input, where its file does not, as few .onnx files do: "imagenet" for most
/// networks, "caffe", or an object such as model files hold, {"resize": 256, "crop": 224, "mean": [0, 0, 0]}:
/// docs/formats.md has its keys. Not while others use the model.
LAMINA_C_API lamina_status lamina_model_set_preprocess(lamina_model* model, const char* preprocess);
/// Photographs as the model's file or lamina_model_set_preprocess says, an error where neither does: `side` x `side`
/// pixels, f32 [3, side, side].
LAMINA_C_API lamina_status lamina_photo_side(const lamina_model* model, int32_t* side);
/// Writes `count` = 3 * side * side numbers to `input`: of a file; of the bytes of one; of pixels. Files are turned
/// upright as their EXIF data say, and laid on white where they are transparent. What the shape of the model's input
/// says is meant: [1, 3, H, W] that is no square, [1, H, W, 3], or one grey channel.
LAMINA_C_API lamina_status lamina_photo_read(const lamina_model* model, const char* path, float* input, size_t count);
LAMINA_C_API lamina_status lamina_photo_decode(const lamina_model* model, const void* bytes, size_t size, float* input,
                                               size_t count);
LAMINA_C_API lamina_status lamina_photo_convert(const lamina_model* model, const lamina_picture* picture, float* input,
                                                size_t count);

/// The `count` best classes of one image, the best first, out of the `numbers` that the model's first output has for
/// it. What they are, logits or probabilities, its last op says; a lone sigmoid is of two classes, so that count may
/// be 2.
LAMINA_C_API lamina_status lamina_model_top_classes(const lamina_model* model, const float* output, size_t numbers,
                                                    lamina_scored* best, size_t count);
/// The same of numbers that are logits.
LAMINA_C_API lamina_status lamina_top_classes(const float* logits, size_t classes, lamina_scored* best, size_t count);

#ifdef __cplusplus
}
#endif
#endif
