// The passes, in order, as data. Each says which facts it needs, which it gives and which it ends. A static_assert
// checks that each finds what it needs, with fusion and without.

#include "lamina/compile/passes.h"

#include <algorithm>

#include "lamina/base/text_table.h"
#include "lamina/tensor/device_memory.h"

namespace lamina::detail {
namespace {

/// Facts about a Compilation.
enum : unsigned {
  single = 1u << 0,     // each operation is one module of the network
  plain = 1u << 1,      // values are nchw, of f32 or of a type of their own
  unplaced = 1u << 2,   // values have no memory yet: they may still lie in others, operations may change places
  folded = 1u << 3,     // elementwise functions are part of the operation that computes their operand
  attention = 1u << 4,  // attention is one operation, not its steps
  few_rows = 1u << 5,   // rows that nobody reads are not computed
  live_taps = 1u << 6,  // convolutions have no taps that see nothing but padding
  sums = 1u << 7,       // two convolutions whose results are added are one operation
  formats = 1u << 8,    // every value has its final format
  slices = 1u << 9,     // concatenated values lie in the concatenation
  buffers = 1u << 10,   // every value has a buffer
  steps = 1u << 11,     // every operation is a step with an operator
};

void resolve_graph(Compilation& c) {
  const CompileOptions& options = c.plan->options;
  c.program = lower(c.graph, resolve_batched(c.graph, options, c.release), options);
}

template <void (*pass)(Program&, const CompileOptions&)>
void on_program(Compilation& c) {
  pass(c.program, c.plan->options);
}

constexpr bool fuses = true, always = false;

constexpr Pass table[] = {
    {"resolve", 0, single | plain | unplaced, 0, resolve_graph, always,
     "the batch is put in: shapes, types and constants become known, ops become modules"},
    {"images", single | plain, 0, 0, on_program<keep_images_apart>, always,
     "outputs are known for which fewer images than the batch may be given"},
    {"moves", single | plain, 0, 0, on_program<simplify_moves>, fuses,
     "moves of elements that follow each other become one"},
    {"padding", single | plain, 0, 0, on_program<take_padding>, fuses,
     "zeros around an image that convolutions alone read are their padding"},
    {"partial sums", single | plain, 0, 0, on_program<find_partial_sums>, fuses,
     "a sum of some channels, joined with the others, is one of all with zeros"},
    {"eight bits", single | plain, 0, 0, on_program<store_eight_bits>, always,
     "what is quantised is stored so, and read by what computes with it"},
    {"branches", single | plain, 0, 0, on_program<merge_branches>, fuses,
     "convolutions, norms and factors of one value that are added become one convolution"},
    {"norms", single | plain, 0, 0, on_program<find_norms>, fuses,
     "what is written as the steps of a norm becomes one"},
    {"fold", single | plain, folded, single, on_program<fold>, fuses,
     "functions, norms and known factors become part of what computes their operand"},
    {"factors", folded | plain, 0, 0, on_program<take_factors>, fuses,
     "factors and summands of the channels become part of the convolution behind them"},
    {"fold factors", folded | plain, 0, 0, on_program<fold>, fuses,
     "what is left of them becomes part of what computes the factors of the images"},
    {"code ends", folded | plain, 0, 0, on_program<end_with_codes>, fuses,
     "a convolution in eight bits rounds its operand, and adds its codes to others, looks them up, or pools them"},
    {"turned products", folded | plain, 0, 0, on_program<turn_products>, fuses,
     "a product with a turned softmax becomes one with the softmax, turned"},
    {"token layers", folded | plain, 0, 0, on_program<turn_token_layers>, fuses,
     "a layer between two turns multiplies images channels first"},
    {"attention", folded | plain, attention, 0, on_program<find_attention>, fuses,
     "two products and the softmax between them become one operation"},
    {"turned operands", attention | plain, 0, 0, on_program<take_turns>, fuses,
     "a product's kernel turns what a move turned for it alone"},
    {"rows", folded | plain, few_rows, 0, on_program<narrow_rows>, fuses, "rows that nobody reads are not computed"},
    {"attention rows", attention | few_rows | plain, 0, 0, on_program<narrow_attention>, fuses,
     "attention is computed for the one query that is read"},
    {"live windows", folded | plain, live_taps, 0, on_program<narrow_windows>, fuses,
     "convolutions lose the taps that see nothing but padding"},
    {"filters", folded | live_taps | plain, 0, 0, on_program<fill_filters>, fuses,
     "filters of zeros are added where kernels want eights, also between products; those read the first channels"},
    {"sums", folded | live_taps | plain, sums, 0, on_program<sum_convolutions>, fuses,
     "two convolutions that are added become one operation"},
    {"pairs", folded | live_taps | plain, 0, 0, on_program<pair_convolutions>, fuses,
     "a depthwise convolution and the one before it become one operation"},
    {"gates", folded | live_taps | plain, 0, 0, on_program<find_gates>, fuses,
     "squeeze and excitation becomes one operation"},
    {"wide maps", sums | plain, 0, 0, on_program<narrow_wide_maps>, fuses,
     "a wide map is narrowed by the operation that computes it"},
    {"ranges", plain, 0, 0, on_program<keep_ranges>, always, "products of products are f32 where others are f16"},
    {"formats", plain | unplaced, formats, single | plain, on_program<settle_formats>, always,
     "every value gets a type and a layout; conversions go where two disagree"},
    {"join", formats | unplaced, slices, 0, on_program<join_in_place>, fuses,
     "what is concatenated is written where it is joined"},
    {"strides", formats | slices | unplaced, 0, 0, on_program<stride_in_place>, fuses,
     "what is moved is read, or written, where it lies"},
    {"maps", formats | slices | unplaced, 0, 0, on_program<join_maps>, fuses,
     "what is no product and is read by one other alone becomes part of that"},
    {"neighbours", slices | unplaced, 0, 0, on_program<gather_neighbours>, fuses,
     "what does not need each other stands side by side, where kernels overlap"},
    {"buffers", formats | unplaced, buffers, unplaced, assign_buffers, always,
     "every value gets a buffer: its operand's, where nobody else reads that"},
    {"prepare", buffers, steps, 0, prepare_steps, always, "every operation gets its kernel, which packs the weights"},
    {"settle neighbours", steps, 0, 0, settle_neighbours, always,
     "a product with a single neighbour waits for it after all"},
    {"place", buffers, 0, 0, place_buffers, always, "every buffer gets its place in the arena"},
};

/// Whether each pass has what it needs from those before it.
constexpr bool is_in_order(bool with_fusion) {
  unsigned facts = 0;
  for (const Pass& pass : table) {
    if (pass.fuses && !with_fusion) continue;
    if ((pass.needs & ~facts) != 0) return false;
    facts = (facts | pass.gives) & ~pass.ends;
  }
  return true;
}
static_assert(is_in_order(true) && is_in_order(false), "a pass needs what none before it gives");

std::size_t steps_of(const Program& program) {
  const auto is_step = [](const Program::Operation& op) { return !op.view; };
  return static_cast<std::size_t>(std::ranges::count_if(program.operations, is_step));
}

/// Runs all passes without taking memory on a GPU; `after` is called after each.
template <class After>
void compile_dry(const Graph& graph, const CompileOptions& options, std::vector<KernelText>* texts,
                 const After& after) {
  const DryRun nothing_taken;
  Compilation compilation{graph, {}};
  compilation.plan->options = options;
  compilation.texts = texts;
  settle_options(graph, compilation.plan->options);
  take_passes(compilation, [&](const Pass& pass) { after(compilation, pass); });
}

}  // namespace

std::span<const Pass> passes() { return table; }

void take_passes(Compilation& compilation, const std::function<void(const Pass&)>& after) {
  for (const Pass& pass : table) {
    if (pass.fuses && !compilation.plan->options.fuse) continue;
    pass.run(compilation);
    heed_stop(compilation.plan->options.stop, "compile");
    if (after) after(pass);
  }
}

std::string describe_passes() {
  TextTable text({"pass", "what it does"});
  for (const Pass& pass : table) text.add({std::string(pass.name), std::string(pass.says)});
  return text.to_string();
}

std::string describe_passes(const Graph& graph, const CompileOptions& options) {
  TextTable text({"pass", "steps before", "after", "what it does"});
  std::size_t before = 0;
  compile_dry(graph, options, nullptr, [&](const Compilation& compilation, const Pass& pass) {
    const std::size_t now = steps_of(compilation.program);
    text.add({std::string(pass.name), std::to_string(before), std::to_string(now), std::string(pass.says)});
    before = now;
  });
  return text.to_string();
}

std::vector<KernelText> kernel_texts(const Graph& graph, const CompileOptions& options) {
  std::vector<KernelText> texts;
  compile_dry(graph, options, &texts, [](const Compilation&, const Pass&) {});
  return texts;
}

}  // namespace lamina::detail
