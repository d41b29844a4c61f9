#ifndef LAMINA_C_H
#define LAMINA_C_H

/// Lamina for C11, and for every language that calls C. A program: examples/c. The rules: docs/embedding.md.
///
///   lamina_model* model = NULL;
///   if (lamina_model_load("net.onnx", &model) != LAMINA_OK) fprintf(stderr, "%s\n", lamina_last_error());
///
/// A function that can fail returns a lamina_status. If that is not LAMINA_OK, its outputs are unchanged. No C++
/// exception leaves the library. The interface is stable: later versions only append.

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define LAMINA_C_API
#else
#define LAMINA_C_API __attribute__((visibility("default")))
#endif

/// The version of this header. lamina_c_version() gives the version of the library that runs, which may be later.
#define LAMINA_C_VERSION 2

#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t lamina_status;
enum {
  LAMINA_OK = 0,
  LAMINA_ERROR = 1,          ///< an argument, an input, or what a file holds, is wrong
  LAMINA_OUT_OF_MEMORY = 2,  ///< the host or the device has not enough memory
  LAMINA_STOPPED = 3,        ///< by lamina_plan_stop or lamina_plan_set_limit; the plan can run again
  LAMINA_NO_SUCH_FILE = 4,   ///< a file or a folder is not there
  LAMINA_FILE_ACCESS = 5,    ///< a file that is there cannot be read, or a file cannot be written
  LAMINA_UNSUPPORTED = 6,    ///< by this build, on this device, or by Lamina
  LAMINA_FAILED = 7          ///< the device or its driver failed, or something unforeseen
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
#define LAMINA_OPEN (-2)   ///< in a model's shapes: open; lamina_compile_options.input_shapes must give it

#define LAMINA_HOST 0
#define LAMINA_CUDA(index) ((index) + 1)

/// A network, its weights, and what its file says about photographs and classes. Threads may share a model.
typedef struct lamina_model lamina_model;
/// A model compiled for one device, batch and precision. One thread at a time may use a plan. Compile one for each
/// thread: they share the weights. You may free the model before its plans.
typedef struct lamina_plan lamina_plan;

/// Elements in somebody's memory, dense and row-major. Images are [N, C, H, W].
typedef struct lamina_tensor {
  void* data;
  int64_t shape[LAMINA_MAX_RANK];
  int32_t rank;
  lamina_dtype dtype;
  int32_t device;    ///< where `data` is: LAMINA_HOST, or LAMINA_CUDA(0)
  int32_t reserved;  ///< 0
} lamina_tensor;

/// An input or an output of a model or a plan. It lives as long as the model or the plan.
typedef struct lamina_port {
  const char* name;
  int64_t shape[LAMINA_MAX_RANK];
  int32_t rank;  ///< -1: open, as is its type: compiling tells an output's, options.input_shapes an input's
  lamina_dtype dtype;
} lamina_port;

/// Every field except `size` may be 0: {.size = sizeof(lamina_compile_options), .batch = 8}.
typedef struct lamina_compile_options {
  size_t size;                      ///< sizeof(lamina_compile_options)
  int64_t batch;                    ///< 0: 1
  const char* device;               ///< "cpu", "cuda", "cuda:1"; NULL or "auto": a GPU if there is one
  const char* precision;            ///< "fp32" (NULL), "tf32", "fp16", "bf16"
  const char* input_format;         ///< how you store f32 inputs: "f32" (NULL), "f16,nhwc"
  const char* output_format;        ///< likewise
  const lamina_port* input_shapes;  ///< names and shapes of inputs that the model leaves open
  size_t input_shape_count;
  int32_t threads;          ///< on a CPU; 0: one for each core
  int32_t batch_invariant;  ///< not 0: also on a GPU, an image's bits do not depend on its batch
  /// Names of inputs that shapes, axes or weights depend on, and their values on the host: no inputs of the plan.
  const lamina_tensor* constants;
  const char* const* constant_names;
  size_t constant_count;
  /// Names of the nodes that are the outputs, in this order; none: the model's outputs. Any node may be an output.
  const char* const* outputs;
  size_t output_count;
  /// By the names of inputs or nodes: the most that numbers may be of which a run makes sizes, or elements that it
  /// finds.
  const char* const* capacity_names;
  const int64_t* capacities;
  size_t capacity_count;
} lamina_compile_options;

/// Bytes that a plan holds on its device.
typedef struct lamina_memory {
  uint64_t activations;  ///< between the steps
  uint64_t workspace;    ///< scratch memory
  uint64_t parameters;   ///< packed copies of the weights; weights used in place count nothing
  uint64_t shared;       ///< the part of the parameters that other plans use too
} lamina_memory;

/// The bytes of a pixel, 8 bits a sample.
typedef int32_t lamina_pixel_format;
enum {
  LAMINA_RGB = 0,
  LAMINA_BGR = 1,
  LAMINA_RGBA = 2,
  LAMINA_BGRA = 3,
  LAMINA_GRAY = 4,
  LAMINA_NV12 = 5  ///< a plane of Y, then a plane of U and V in turn
};

/// A picture in your memory, such as a camera's frame.
typedef struct lamina_picture {
  const uint8_t* data;    ///< the top row
  const uint8_t* chroma;  ///< for LAMINA_NV12: U and V; NULL: right after the rows of Y
  int64_t stride;         ///< bytes from one row to the next; 0: rows follow each other
  int32_t width, height;
  lamina_pixel_format format;
  int32_t reserved;  ///< 0
} lamina_picture;

/// A class and its probability.
typedef struct lamina_scored {
  int32_t index;
  float score;
} lamina_scored;

/// A detector of the YOLO families, RT-DETR, or one of torchvision's. Threads may share it. You may free the model
/// before it.
typedef struct lamina_detector lamina_detector;

/// Every field except `size` may be 0: {.size = sizeof(lamina_detect_options), .confidence = 0.5}.
typedef struct lamina_detect_options {
  size_t size;             ///< sizeof(lamina_detect_options)
  double confidence;       ///< the score that a thing has to exceed, to 1; 0: 0.25 (1e-9 is as good as 0)
  double iou;              ///< how far boxes of a class may overlap, to 1; 0: 0.45
  const int32_t* classes;  ///< the numbers of the classes wanted; none: all
  size_t class_count;
  int32_t across_classes;  ///< not 0: boxes of different classes may not overlap further either
  int32_t most;            ///< things of a photograph; 0: 300
  int32_t no_masks;        ///< not 0: no masks are made
  int32_t reserved;        ///< 0
} lamina_detect_options;

/// A point of a skeleton.
typedef struct lamina_keypoint {
  float x, y, score;  ///< score: 1 where the model gives none
} lamina_keypoint;

/// A thing that was found, in pixels of the photograph from the upper left corner.
typedef struct lamina_detection {
  const char* name;  ///< of its class: "class 7" where the model does not say it
  int32_t label;     ///< the number of its class
  float score;
  float box[4];                   ///< left, top, right, bottom
  float corners[8];               ///< x and y of the four corners, around it: of a turned box, or of `box`
  const lamina_keypoint* points;  ///< of a skeleton; none: NULL
  size_t point_count;
  /// Its pixels as lengths of runs, column by column: so many pixels are not the thing's, then so many are, and so on.
  const uint32_t* mask;  ///< none: NULL
  size_t mask_count;
} lamina_detection;

/// What was found in a photograph, best score first.
typedef struct lamina_detections {
  const lamina_detection* found;
  size_t count;
  int32_t width, height;  ///< of the photograph
  int64_t candidates;     ///< boxes above the confidence
  int64_t left_out;       ///< of them, those below the best 30,000, which were not looked at
  double network_ms;      ///< milliseconds that the network took
} lamina_detections;

/// The versions of the library that runs: LAMINA_C_VERSION, and "0.2.0".
LAMINA_C_API int32_t lamina_c_version(void);
LAMINA_C_API const char* lamina_version(void);
/// The message of this thread's last call that did not return LAMINA_OK: the place, what was expected, what was found.
/// Valid until the next such call.
LAMINA_C_API const char* lamina_last_error(void);

/// Opens a Lamina model file or an .onnx file.
LAMINA_C_API lamina_status lamina_model_load(const char* path, lamina_model** model);
/// The same from the bytes of such a file, which are copied. An .onnx file whose weights are in other files is refused.
LAMINA_C_API lamina_status lamina_model_load_memory(const void* bytes, size_t size, lamina_model** model);
/// Makes a ready-made network, such as "alexnet" or "resnet18", with weights from a file: .safetensors, or PyTorch's
/// .pth. classes: 0 for 1000.
LAMINA_C_API lamina_status lamina_model_load_network(const char* network, int32_t classes, const char* weights,
                                                     lamina_model** model);
LAMINA_C_API void lamina_model_free(lamina_model* model);
LAMINA_C_API lamina_status lamina_model_inputs(const lamina_model* model, const lamina_port** ports, size_t* count);
LAMINA_C_API lamina_status lamina_model_outputs(const lamina_model* model, const lamina_port** ports, size_t* count);
/// The names of the classes, by number; none if the model has no names. They live as long as the model.
LAMINA_C_API lamina_status lamina_model_labels(const lamina_model* model, const char* const** labels, size_t* count);
/// Names the classes by `count` texts, which are copied. Do not call this while others use the model.
LAMINA_C_API lamina_status lamina_model_set_labels(lamina_model* model, const char* const* labels, size_t count);
/// A note of the file's exporter, by its key: "task", "names" and "imgsz" of a detector. NULL if there is no such key.
/// It lives as long as the model.
LAMINA_C_API lamina_status lamina_model_metadata(const lamina_model* model, const char* key, const char** value);
/// The memory that a plan with these options will need; no plan is made. options, here and below: NULL for the
/// defaults.
LAMINA_C_API lamina_status lamina_model_plan_memory(const lamina_model* model, const lamina_compile_options* options,
                                                    lamina_memory* memory);
LAMINA_C_API lamina_status lamina_model_compile(const lamina_model* model, const lamina_compile_options* options,
                                                lamina_plan** plan);
LAMINA_C_API void lamina_plan_free(lamina_plan* plan);

/// The inputs and outputs of a plan; all extents are numbers, of an output of which a run decides them the most.
LAMINA_C_API lamina_status lamina_plan_inputs(const lamina_plan* plan, const lamina_port** ports, size_t* count);
LAMINA_C_API lamina_status lamina_plan_outputs(const lamina_plan* plan, const lamina_port** ports, size_t* count);
/// Sets `counted` to 1 if a run decides how large some output is, else to 0. lamina_plan_run_into refuses such a plan.
LAMINA_C_API lamina_status lamina_plan_counted(const lamina_plan* plan, int32_t* counted);
/// A table of the steps and their kernels, for people. It lives as long as the plan.
LAMINA_C_API lamina_status lamina_plan_summary(const lamina_plan* plan, const char** text);
/// Each later run of the plan may take so many seconds, then it returns LAMINA_STOPPED; 0: no limit. This also undoes
/// lamina_plan_stop.
LAMINA_C_API lamina_status lamina_plan_set_limit(lamina_plan* plan, double seconds);
/// Ends the plan's run in another thread, and every later run, until lamina_plan_set_limit: they return LAMINA_STOPPED
/// before their next step. On a GPU they return it before they begin, because what is enqueued is computed.
LAMINA_C_API lamina_status lamina_plan_stop(lamina_plan* plan);

/// Runs the plan. Inputs are in the order of lamina_plan_inputs. The outputs, as many as the plan has, become views
/// into the plan; its next run overwrites them. You may give fewer images than the batch; the outputs are then for
/// these. If the inputs are on the host, so are the outputs, complete on return. If they are on the plan's GPU, the
/// work is enqueued on `stream` (a cudaStream_t; NULL: the default one), and the outputs are on the GPU.
LAMINA_C_API lamina_status lamina_plan_run(lamina_plan* plan, const lamina_tensor* inputs, size_t input_count,
                                           lamina_tensor* outputs, size_t output_count, void* stream);
/// The same into your memory, which no input and no other output may use. Set data, shape, type and device of the
/// outputs.
LAMINA_C_API lamina_status lamina_plan_run_into(lamina_plan* plan, const lamina_tensor* inputs, size_t input_count,
                                                const lamina_tensor* outputs, size_t output_count, void* stream);

/// Says how photographs become the model's input. Most .onnx files do not say it. It is a name, as of the command's
/// --preprocess: "imagenet" for most networks, "symmetric", "caffe", "yolo" or "yolox", made for the size of the
/// model's input. Or it is a JSON object as in model files, {"resize": 256, "crop": 224, "mean": [0, 0, 0]};
/// docs/formats.md has its keys. Do not call this while others use the model.
LAMINA_C_API lamina_status lamina_model_set_preprocess(lamina_model* model, const char* preprocess);
/// The size of the model's input: a photograph becomes f32 [3, side, side]. The model's file or
/// lamina_model_set_preprocess tells it. It is an error if neither does, if the input is not square, or if the model's
/// input has another, fixed size.
LAMINA_C_API lamina_status lamina_photo_side(const lamina_model* model, int32_t* side);
/// Writes `count` = 3 * side * side numbers to `input`: from a file, from the bytes of a file, or from pixels. Files
/// are turned upright by their EXIF data, and laid on white where they are transparent. If the model's input has
/// another form, such as [1, 3, H, W] that is not square, [1, H, W, 3] or one grey channel, `count` is its number of
/// elements.
LAMINA_C_API lamina_status lamina_photo_read(const lamina_model* model, const char* path, float* input, size_t count);
LAMINA_C_API lamina_status lamina_photo_decode(const lamina_model* model, const void* bytes, size_t size, float* input,
                                               size_t count);
LAMINA_C_API lamina_status lamina_photo_convert(const lamina_model* model, const lamina_picture* picture, float* input,
                                                size_t count);

/// The `count` best classes of one image, the best first. `output` has the `numbers` of the model's first output for
/// this image. The model's last op tells if they are logits or probabilities. A single sigmoid gives two classes, so
/// `count` may be 2. It is an error if the model has labels, and not as many as there are classes.
LAMINA_C_API lamina_status lamina_model_top_classes(const lamina_model* model, const float* output, size_t numbers,
                                                    lamina_scored* best, size_t count);
/// The same for numbers that are logits.
LAMINA_C_API lamina_status lamina_top_classes(const float* logits, size_t classes, lamina_scored* best, size_t count);

/// Makes a detector. options: NULL for the defaults. side: the pixels of both sides of the input where the model leaves
/// them open; 0: as the model's exporter noted, or 640. It is an error if the model is no detector, or has another,
/// fixed size. A build of the library without LAMINA_DETECT refuses every model.
LAMINA_C_API lamina_status lamina_detector_create(const lamina_model* model, const lamina_compile_options* options,
                                                  int32_t side, lamina_detector** detector);
LAMINA_C_API void lamina_detector_free(lamina_detector* detector);
/// Finds things in a photograph: in a file, in the bytes of a file, or in pixels. Files are read as by
/// lamina_photo_read. options: NULL for the defaults. Free what was found by lamina_detections_free.
LAMINA_C_API lamina_status lamina_detector_read(const lamina_detector* detector, const char* path,
                                                const lamina_detect_options* options, lamina_detections** detections);
LAMINA_C_API lamina_status lamina_detector_decode(const lamina_detector* detector, const void* bytes, size_t size,
                                                  const lamina_detect_options* options, lamina_detections** detections);
LAMINA_C_API lamina_status lamina_detector_detect(const lamina_detector* detector, const lamina_picture* picture,
                                                  const lamina_detect_options* options, lamina_detections** detections);
LAMINA_C_API void lamina_detections_free(lamina_detections* detections);

#ifdef __cplusplus
}
#endif
#endif
