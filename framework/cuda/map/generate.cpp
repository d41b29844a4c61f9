#include "lamina/cuda/map/generate.h"

#include <algorithm>

#include "lamina/cuda/eight_bits/rounding.h"
#include "lamina/cuda/map/generator.h"

namespace lamina::cuda {

int Generator::arrays() const {
  std::size_t tables = 0;
  for (const MapView& view : p_.loads) tables += view.tables.size();
  return kernel_.inputs + kernel_.outputs + static_cast<int>(tables);
}

MapKernel Generator::write(std::string_view name) {
  count();
  find_points();
  const Neighbours neighbours = let_successor_start();
  find_bases();
  if (s_.early) fetch_parameters();
  wait_for_predecessor(neighbours);
  if (s_.staged >= 0) stage();
  for (const std::vector<int>& reductions : passes()) pass(reductions);
  if (s_.parts > 1) {
    meet_blocks();
  } else {
    store_all();
  }
  if (!neighbours.before.empty()) t_.line_if(neighbours.before, "griddepcontrol.wait");
  kernel_.threads = s_.threads;
  kernel_.parts = s_.parts;
  kernel_.text = t_.entry(name, arrays() + (s_.parts > 1 ? 2 : 1), s_.threads, shared_bytes_);
  kernel_.called = called_;
  return std::move(kernel_);
}

Generator::Neighbours Generator::let_successor_start() {
  if (architecture_ < 90) return {};
  if (s_.parts > 1) {
    t_.line("griddepcontrol.launch_dependents");
    return {};
  }
  const std::string bits = t_.let(Bank::b64, "ld.param.u64", "[p" + std::to_string(arrays()) + "]");
  const auto is_set = [&](int bit) {
    return t_.let(Bank::predicate, "setp.ne.s64", t_.let(Bank::b64, "and.b64", bits, bit), 0);
  };
  const Neighbours result = {is_set(1), is_set(2)};
  const std::string alone = t_.let(Bank::predicate, "not.pred", result.after);
  t_.line_if(t_.let(Bank::predicate, "or.pred", result.before, alone), "griddepcontrol.launch_dependents");
  return result;
}

void Generator::wait_for_predecessor(const Neighbours& neighbours) {
  if (architecture_ < 90) return;
  if (neighbours.before.empty()) return t_.line("griddepcontrol.wait");
  const std::string first = t_.let(Bank::predicate, "not.pred", neighbours.before);
  t_.line_if(neighbours.before, "membar.gl");
  t_.line_if(first, "griddepcontrol.wait");
  t_.line_if(t_.let(Bank::predicate, "and.pred", first, neighbours.after), "griddepcontrol.launch_dependents");
}

std::string Generator::storing() {
  std::string result = exists_;
  if (!lane_.empty()) {
    const std::string first = t_.let(Bank::predicate, "setp.eq.u32", lane_, 0);
    result = result.empty() ? first : t_.let(Bank::predicate, "and.pred", result, first);
  }
  return result;
}

void Generator::store_all() {
  std::vector<int> once, each;
  for (std::size_t i = 0; i < p_.stores.size(); ++i) {
    (along_piece(p_.stores[i].node) || stores_each(p_, p_.stores[i], s_) || s_.repeated >= 0 || s_.staged >= 0 ? each
                                                                                                               : once)
        .push_back(static_cast<int>(i));
  }
  if (!once.empty()) {
    const std::string who = storing();
    for (const int i : once) store(i, -1, who);
  }
  if (each.empty()) return;
  std::vector<int> nodes;
  for (const int i : each) nodes.push_back(p_.stores[static_cast<std::size_t>(i)].node);
  walk(nodes, [&] {
    for (std::size_t u = 0; u < pieces_.size(); ++u) {
      std::string who = exists_;
      if (!pieces_[u].exists.empty())
        who = who.empty() ? pieces_[u].exists : t_.let(Bank::predicate, "and.pred", who, pieces_[u].exists);
      for (const int i : each) {
        if (!is_interleaved(p_.stores[static_cast<std::size_t>(i)].view, s_)) store(i, static_cast<int>(u), who);
      }
    }
    for (const int i : each) {
      if (is_interleaved(p_.stores[static_cast<std::size_t>(i)].view, s_)) store_interleaved(i);
    }
  });
}

std::string Generator::code(const std::string& number, const Rounding& to) {
  const auto f = [&](const std::string& op, const std::string& a, auto b, const auto&... c) {
    return t_.let(Bank::f32, op + ".f32", a, elements_.number(static_cast<double>(b)), c...);
  };
  const std::string x = f("min", f("max", number, to.low), to.high),
                    q = f("fma.rn", x, to.inverse, f("mul.rn", x, to.rest)),
                    quotient = f("fma.rn", f("fma.rn", q, -to.scale, x), to.inverse, q);
  // Added, this leaves a rounded number in the last bits.
  return t_.let(Bank::b32, "add.s32", t_.let(Bank::b32, "mov.b32", f("add.rn", quotient, 12582912.0f)), to.zero);
}

std::string Generator::element(const MapProblem::Store& store, int piece, int j) {
  const DType dtype = store.view.dtype;
  const MapNode& n = node(store.node);
  const bool codes =
      n.is(Pointwise::quantize) && p_.compute == DType::f32 && (dtype == DType::u8 || dtype == DType::i8);
  if (codes && node(n.from[1]).kind == MapNode::Kind::number && node(n.from[2]).kind == MapNode::Kind::number) {
    const auto number_at = [&](std::size_t operand) { return node(n.from[operand]).number; };
    View stored;
    stored.format.dtype = dtype;
    stored.quantization = {static_cast<float>(number_at(1)), static_cast<int>(number_at(2))};
    const Rounding to(stored);
    if (to.inverse != 0) return code(elements_.in_register(value(n.from[0], piece, j)), to);
  }
  return elements_.element(dtype, elements_.in_register(value(store.node, piece, j)));
}

void Generator::store(int i, int piece, const std::string& who) {
  const MapProblem::Store& result = p_.stores[static_cast<std::size_t>(i)];
  const MapView& view = result.view;
  const std::int64_t step = s_.vector < 0 ? 0 : view.strides[static_cast<std::size_t>(s_.vector)];
  const Place at = place(view, store_bases_[static_cast<std::size_t>(i)], piece);
  const auto size = static_cast<std::int64_t>(size_of(view.dtype));
  std::vector<std::string> elements;
  for (int j = 0; j < (step == 0 ? 1 : s_.pack); ++j) elements.push_back(element(result, std::max(piece, 0), j));
  const int together = most_packed(view, s_.vector, alignment_.outputs[static_cast<std::size_t>(view.array)]);
  elements_.store(view.dtype, at.address, at.bytes, elements, step == 1 ? together : 1, step * size, who);
}

void Generator::store_interleaved(int i) {
  const MapProblem::Store& result = p_.stores[static_cast<std::size_t>(i)];
  const MapView& view = result.view;
  const Place at = place(view, store_bases_[static_cast<std::size_t>(i)], 0);
  std::vector<std::string> elements;
  for (int j = 0; j < s_.pack; ++j) {
    for (int u = 0; u < static_cast<int>(s_.steps); ++u) elements.push_back(element(result, u, j));
  }
  const int together = most_interleaved(view, s_, alignment_.outputs[static_cast<std::size_t>(view.array)]);
  elements_.store(view.dtype, at.address, at.bytes, elements, together, static_cast<std::int64_t>(size_of(view.dtype)),
                  exists_);
}

MapKernel generate(const MapProblem& problem, const MapSchedule& schedule, const MapAlignment& alignment,
                   const PtxFunctions& functions, std::string_view name, int architecture) {
  return Generator(problem, schedule, alignment, functions, architecture).write(name);
}

}  // namespace lamina::cuda
