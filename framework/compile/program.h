#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lamina/graph/graph.h"
#include "lamina/graph/resolve.h"
#include "lamina/kernel/preparation.h"
#include "lamina/tensor/format.h"

/// What a Graph becomes on its way to a Plan: the operations that are left after fusion, in order, and the activations
/// between them, each in the format that its producer and its readers agreed on.
namespace lamina::detail {

inline constexpr int none = -1;  ///< in place of the number of a value, an operand or an operation

struct Answers;

struct Program {
  struct Value {
    std::string name;  ///< of the node that computes it
    Shape shape;
    Format format;
    Tensor constant = {};            ///< on the CPU, in that format; undefined unless it is the same in every run
    int whole = -1;                  ///< the value in whose memory this one lies; -1: it has memory of its own
    std::int64_t first_channel = 0;  ///< of a slice of channels: which of the whole's channels is its first
    Shape strides = {};              ///< or, if not of rank 0, how its elements lie in the whole (View::strides)
    std::int64_t first = 0;          ///< of a value with strides: which element of the whole is the first here
    Quantization quantization = {};  ///< scale and zero point, if these whole numbers stand for others
    bool keeps_f32 = false;          ///< stays f32 in every precision: f16 may not hold it (keep_ranges)
  };

  struct Operation {
    std::string name;   ///< of the node whose module runs
    std::string fused;  ///< names of the nodes folded into it
    std::shared_ptr<const Module> module;
    std::vector<int> inputs;  ///< values
    int output = -1;          ///< a value
    int second_output = -1;   ///< a further value that it computes, in the format of the first; -1: none
    bool view = false;        ///< the output is the input's memory
    bool beside = false;      ///< may run together with the operation before it: neither needs what the other writes
    Format input_format;      ///< of all inputs that have a choice
    mutable std::shared_ptr<Answers> answers = {};  ///< what its module answered to PreparedViews, which asks once
  };

  std::vector<Value> values;
  std::vector<Operation> operations;
  std::vector<int> inputs;   ///< values of the graph's inputs
  std::vector<int> outputs;  ///< values of the graph's outputs; behind them those of the outputs' counts
  std::vector<std::vector<int>> output_counts;  ///< Resolved::output_counts
  std::vector<std::string> output_names;
  std::vector<bool> input_batched, output_batched;  ///< the first extent is the batch
  std::vector<std::pair<std::string, int>> kept;    ///< with keep_all: every node's name and value

  const Value& value(int index) const { return values[static_cast<std::size_t>(index)]; }
  Value& value(int index) { return values[static_cast<std::size_t>(index)]; }
  /// Bytes from the beginning of the whole to the first element of a value; 0 for one with memory of its own.
  static std::size_t slice_offset(const Value& value) {
    if (value.whole < 0) return 0;
    const std::size_t size = size_of(value.format.dtype);
    if (value.strides.rank() > 0) return static_cast<std::size_t>(value.first) * size;
    const std::int64_t step = value.format.layout == Layout::nhwc ? 1 : value.shape[2] * value.shape[3];
    return static_cast<std::size_t>(value.first_channel * step) * size;
  }
};

/// How a caller's pictures u8 [N, H, W, 3] are stored, seen as a value [N, 3, H, W]. The conversion from it, to
/// whatever the first layer likes, is the normalisation.
inline constexpr Format photo = {DType::u8, Layout::nhwc};

/// Throws Error for options that do not fit the graph or the device; decides what they leave open.
void settle_options(const Graph& graph, CompileOptions& options);

/// The formats that a value may be stored in, the best first. Values of f32 have a choice of type, as the precision
/// says, and of layout; whole numbers that stand for others have a choice of layout; all others have one format.
std::vector<Format> formats(const Program::Value& value, const CompileOptions& options);

/// What `format` is of that value: only images have its layout, and only values of f32 its type.
Format format_of_input(const Program::Value& value, Format format);

/// What an operation is prepared for, and the views that the Preparation looks at.
struct PreparedViews {
  /// In the formats that the operation and its result have now.
  PreparedViews(const Program& program, const Program::Operation& op, const CompileOptions& options);
  PreparedViews(const PreparedViews&) = delete;
  PreparedViews& operator=(const PreparedViews&) = delete;

  /// Other formats of all inputs and of the results.
  Preparation& with(Format input, Format output);
  /// Whether the operation's module takes them as they are, and pays. It is asked once; its `prepare` is told what it
  /// finds.
  bool pay();
  bool pay(Format input, Format output) { return with(input, output), pay(); }

  std::vector<View> inputs, outputs;
  Preparation preparation;

 private:
  const Program::Operation& op_;
  std::vector<const Program::Value*> values_;  // of the inputs
};

/// Whether an operation has a kernel that pays, in some formats.
bool pays_in_some_format(const Program& program, const Program::Operation& op, const CompileOptions& options);

/// Whether an operation has a kernel that pays with its operands and its result where they lie now, in other values.
bool pays_in_place(const Program& program, const Program::Operation& op, const CompileOptions& options);

/// A value and an operation for each node of a network that somebody needs. Nothing is fused yet, and all values are
/// nchw, of f32 or of a type of their own.
Program lower(const Graph& graph, const Resolved& resolved, const CompileOptions& options);

/// Sets Program::output_batched to false for outputs that do not keep the images apart.
void keep_images_apart(Program& program, const CompileOptions& options);

/// Joins moves of elements that follow each other, even if operations on single rows stand between them.
void simplify_moves(Program& program, const CompileOptions& options);

/// Lets convolutions pad the images that they read.
void take_padding(Program& program, const CompileOptions& options);

/// Where some channels are added to and then joined with the rest, adds to all channels at once, zeros to the rest.
void find_partial_sums(Program& program, const CompileOptions& options);

/// Stores values that the network quantises in eight bits, where the kernels that compute and read them can do so.
void store_eight_bits(Program& program, const CompileOptions& options);

/// Puts one convolution in the place of linear branches of a value that are added.
void merge_branches(Program& program, const CompileOptions& options);

/// Puts norms in the place of what exporters write for them.
void find_norms(Program& program, const CompileOptions& options);

/// Makes an operation part of the one before it, if that one's module absorbs its module.
void fold(Program& program, const CompileOptions& options);

/// Makes factors and summands of the channels in front of a convolution part of it.
void take_factors(Program& program, const CompileOptions& options);

/// Puts (p v)' in the place of v' p', where p is the softmax of a product.
void turn_products(Program& program, const CompileOptions& options);

/// Puts a convolution of images channels first in the place of a layer over rows that were turned for it.
void turn_token_layers(Program& program, const CompileOptions& options);

/// Puts attention in the place of the operations that it is made of.
void find_attention(Program& program, const CompileOptions& options);

/// Where a matrix is transposed for one product alone, lets the product read it as it was.
void take_turns(Program& program, const CompileOptions& options);

/// Where only some rows of a result are read, takes those rows before they are computed row by row, not after.
void narrow_rows(Program& program, const CompileOptions& options);

/// Where only one row of each image and head is read of an attention, computes that row alone.
void narrow_attention(Program& program, const CompileOptions& options);

/// Leaves out the taps of convolutions that see nothing but padding.
void narrow_windows(Program& program, const CompileOptions& options);

/// Lets a convolution in eight bits add its codes to others, or look them up.
void end_with_codes(Program& program, const CompileOptions& options);

/// Puts one operation in the place of two convolutions that are added.
void sum_convolutions(Program& program, const CompileOptions& options);

/// Puts one operation in the place of a convolution and a depthwise convolution of its result.
void pair_convolutions(Program& program, const CompileOptions& options);

/// Puts one operation in the place of a convolution of single pixels, whose result has several readers, and that one of
/// the readers which makes fewer channels of it.
void narrow_wide_maps(Program& program, const CompileOptions& options);

/// Puts one operation in the place of an image's means, two layers of them, and the image times what these give.
void find_gates(Program& program, const CompileOptions& options);

/// Gives products further filters of zeros, up to the number that kernels want, and gives operations that work on their
/// results channel by channel as many channels.
void fill_filters(Program& program, const CompileOptions& options);

/// Marks values of f32 that f16 may not hold (Value::keeps_f32).
void keep_ranges(Program& program, const CompileOptions& options);

/// Settles the format of every value and puts conversions where producer and reader do not agree. Inputs and outputs
/// of the graph are as the options say, inputs that options.photos speaks of are photos, kept values are f32 nchw.
void settle_formats(Program& program, const CompileOptions& options);

/// Makes values that are joined along the channels slices of the joined one, if the kernels that write and read them
/// can work on slices: then nothing is copied. Formats must be settled.
void join_in_place(Program& program, const CompileOptions& options);

/// Makes the result of a move a strided view of its operand, or the operand one of the result, if the kernels that read
/// or write it can take such strides: then nothing is moved. Formats must be settled.
void stride_in_place(Program& program, const CompileOptions& options);

/// Puts one Map in the place of several, on a GPU. Formats and places must be settled.
void join_maps(Program& program, const CompileOptions& options);

/// Puts operations that do not need each other side by side (Operation::beside), for devices whose kernels overlap.
void gather_neighbours(Program& program, const CompileOptions& options);

}  // namespace lamina::detail
