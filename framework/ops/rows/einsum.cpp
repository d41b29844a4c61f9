// Sums over products of elements of operands whose dimensions have letters. Operands are multiplied one after the
// other: what only one of the two has and no one else needs is summed first; what both have and no one else needs is
// the inside of a product of matrices.

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <string>

#include "lamina/ops/parts.h"
#include "lamina/ops/rows/products.h"

namespace lamina::detail {
namespace {

using Labels = std::vector<int>;  // letters; 1000 + i: the i-th dimension from the end of an ellipsis
constexpr int ellipsis = 1000;

/// An operand, or what became of some: a label for each dimension.
struct Term {
  int node = 0;
  Labels labels;
};

bool has(const Labels& labels, int label) { return std::ranges::find(labels, label) != labels.end(); }

/// The labels of one term of the equation, `dots` dimensions for "...".
Labels read_labels(const Expansion& e, std::string_view text, int dots) {
  Labels labels;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (std::isalpha(static_cast<unsigned char>(text[i])) != 0) {
      labels.push_back(text[i]);
    } else if (text.substr(i, 3) == "..." && !has(labels, ellipsis)) {
      for (int d = dots; d-- > 0;) labels.push_back(ellipsis + d);
      i += 2;
    } else {
      e.refuse("cannot read the equation at \"", text.substr(i), '"');
    }
  }
  return labels;
}

/// The terms of the operands, and that of the output if there is one.
struct Equation {
  std::vector<std::string> operands = {""};
  std::optional<std::string> output = {};
};

Equation read_equation(Expansion& e) {
  std::string text = e.attributes().text("equation", "");
  std::erase(text, ' ');
  Equation result;
  if (const std::size_t arrow = text.find("->"); arrow != std::string::npos) {
    result.output = text.substr(arrow + 2);
    text.resize(arrow);
  }
  for (const char c : text) {
    if (c == ',') result.operands.emplace_back();
    if (c != ',') result.operands.back() += c;
  }
  if (static_cast<int>(result.operands.size()) != e.count())
    e.refuse("its equation is for ", result.operands.size(), " operands, got ", e.count());
  return result;
}

/// A dimension for each label that is there twice: the diagonal.
Term diagonal(Expansion& e, const Term& term) {
  const Shape from = e.shape(term.node);
  const std::vector<std::int64_t> strides = row_major_strides(from);
  Term result;
  MoveProblem move;
  std::vector<std::int64_t> to;
  for (std::size_t d = 0; d < term.labels.size(); ++d) {
    const int label = term.labels[d];
    const auto at = static_cast<std::size_t>(std::ranges::find(result.labels, label) - result.labels.begin());
    if (at == result.labels.size()) {
      result.labels.push_back(label);
      to.push_back(from.extents()[d]);
      move.axes.push_back({.extent = to[at], .stride = strides[d]});
    } else if (to[at] == from.extents()[d]) {
      move.axes[at].stride += strides[d];
    } else {
      e.refuse("one letter stands for extents of ", to[at], " and ", from.extents()[d]);
    }
  }
  if (result.labels.size() == term.labels.size()) return term;
  result.node = e.move(term.node, std::move(move), to_shape(to));
  return result;
}

/// Without dimensions of 1: they broadcast, and nothing is lost by it.
Term squeezed(Expansion& e, const Term& term) {
  Term result;
  std::vector<std::int64_t> to;
  for (std::size_t d = 0; d < term.labels.size(); ++d) {
    const std::int64_t extent = e.shape(term.node).extents()[d];
    if (extent == 1) continue;
    to.push_back(extent);
    result.labels.push_back(term.labels[d]);
  }
  result.node = e.reshape(term.node, to_shape(to));
  return result;
}

Term summed(Expansion& e, const Term& term, const Labels& needed) {
  std::vector<int> axes;
  Term result;
  for (std::size_t d = 0; d < term.labels.size(); ++d) {
    if (has(needed, term.labels[d])) {
      result.labels.push_back(term.labels[d]);
    } else {
      axes.push_back(static_cast<int>(d));
    }
  }
  if (axes.empty()) return term;
  result.node = e.reduce(Reduction::sum, term.node, axes, false);
  return result;
}

int ordered(Expansion& e, const Term& term, const Labels& labels) {
  std::vector<int> order;
  for (const int label : labels)
    order.push_back(static_cast<int>(std::ranges::find(term.labels, label) - term.labels.begin()));
  return e.permute(term.node, order);
}

Labels joined(Labels a, const Labels& b, const Labels& c = {}) {
  a.insert(a.end(), b.begin(), b.end());
  a.insert(a.end(), c.begin(), c.end());
  return a;
}

class Contraction {
 public:
  Contraction(Expansion& e, Term a, Term b, const Labels& needed) : e_(e), a_(std::move(a)), b_(std::move(b)) {
    a_ = summed(e, a_, joined(needed, b_.labels));
    b_ = summed(e, b_, joined(needed, a_.labels));
    for (const int label : a_.labels)
      (!has(b_.labels, label) ? rows_ : has(needed, label) ? batch_ : inner_).push_back(label);
    for (const int label : b_.labels) {
      if (!has(a_.labels, label)) columns_.push_back(label);
    }
    for (const Term* term : {&a_, &b_}) {
      for (std::size_t d = 0; d < term->labels.size(); ++d)
        extents_[term->labels[d]] = e.shape(term->node).extents()[d];
    }
  }

  Term result() {
    const int product = inner_.empty() ? outer_product() : inner_product();
    const Labels labels = joined(batch_, rows_, columns_);
    std::vector<std::int64_t> to;
    for (const int label : labels) to.push_back(extents_[label]);
    return {e_.reshape(product, to_shape(to)), labels};
  }

 private:
  std::int64_t size(const Labels& labels) {
    std::vector<std::int64_t> extents;
    for (const int label : labels) extents.push_back(extents_[label]);
    return to_shape(extents).numel();
  }

  int outer_product() {
    const std::int64_t batch = size(batch_), rows = size(rows_), columns = size(columns_);
    const int a = e_.reshape(ordered(e_, a_, joined(batch_, rows_)), {batch, rows, 1});
    const int b = e_.reshape(ordered(e_, b_, joined(batch_, columns_)), {batch, 1, columns});
    return e_.pointwise(Pointwise::mul, {a, b});
  }

  /// As matrices, turned where that is how they lie.
  int inner_product() {
    const std::int64_t batch = size(batch_), inner = size(inner_);
    const bool turn_a = a_.labels == joined(batch_, inner_, rows_),
               turn_b = b_.labels == joined(batch_, columns_, inner_);
    const auto matrix = [&](int node, std::int64_t rows, std::int64_t columns) {
      return e_.reshape(node, batch_.empty() ? Shape{rows, columns} : Shape{batch, rows, columns});
    };
    const DType dtype = e_.dtype(a_.node);
    const bool weights = batch_.empty() && e_.known(b_.node).defined();
    if (weights || (!turn_a && !turn_b)) {
      const int a = matrix(ordered(e_, a_, joined(batch_, rows_, inner_)), size(rows_), inner);
      return matmul(e_, a, matrix(ordered(e_, b_, joined(batch_, inner_, columns_)), inner, size(columns_)));
    }
    int a = turn_a ? matrix(a_.node, inner, size(rows_))
                   : matrix(ordered(e_, a_, joined(batch_, rows_, inner_)), size(rows_), inner);
    int b = turn_b ? matrix(b_.node, size(columns_), inner)
                   : matrix(ordered(e_, b_, joined(batch_, inner_, columns_)), inner, size(columns_));
    if (is_float(dtype)) a = as_f32(e_, a), b = as_f32(e_, b);
    return e_.cast(multiply(e_, a, b, {.transpose_a = turn_a, .transpose_b = turn_b}), dtype);
  }

  Expansion& e_;
  Term a_, b_;
  Labels batch_, rows_, inner_, columns_;
  std::map<int, std::int64_t> extents_;
};

}  // namespace

int einsum(Expansion& e) {
  const Equation equation = read_equation(e);
  std::vector<Term> terms;
  std::map<int, std::int64_t> extents;
  std::map<int, int> uses;
  int dots = 0;
  for (int i = 0; i < e.count(); ++i) {
    const std::string& text = equation.operands[static_cast<std::size_t>(i)];
    const auto letters = std::ranges::count_if(text, [](unsigned char c) { return std::isalpha(c) != 0; });
    const int own = e.rank(e.input(i)) - static_cast<int>(letters);
    Term term = {e.input(i), read_labels(e, text, std::max(own, 0))};
    if (static_cast<int>(term.labels.size()) != e.rank(term.node))
      e.refuse("\"", text, "\" is not for an operand ", e.shape(term.node));
    if (e.dtype(term.node) != e.dtype(e.input(0))) e.refuse("expected operands of one type");
    dots = std::max(dots, text.find("...") == std::string::npos ? 0 : own);
    for (std::size_t d = 0; d < term.labels.size(); ++d) {
      const std::int64_t extent = e.shape(term.node).extents()[d];
      std::int64_t& known = extents.try_emplace(term.labels[d], extent).first->second;
      if (known != extent && known != 1 && extent != 1)
        e.refuse("one letter stands for extents of ", known, " and ", extent);
      if (known == 1) known = extent;
      ++uses[term.labels[d]];
    }
    terms.push_back(squeezed(e, diagonal(e, term)));
  }
  Labels output = equation.output ? read_labels(e, *equation.output, dots) : Labels();
  for (int d = dots; d-- > 0 && !equation.output;) output.push_back(ellipsis + d);
  for (const auto& [label, count] : uses) {
    if (!equation.output && label < ellipsis && count == 1) output.push_back(label);
  }
  std::vector<std::int64_t> to;
  for (const int label : output) {
    if (std::ranges::count(output, label) != 1 || !extents.contains(label))
      e.refuse("its output is not of its operands");
    to.push_back(extents[label]);
  }

  Term all = terms[0];
  for (std::size_t i = 1; i < terms.size(); ++i) {
    Labels needed = output;
    for (std::size_t later = i + 1; later < terms.size(); ++later) needed = joined(needed, terms[later].labels);
    all = Contraction(e, all, terms[i], needed).result();
  }
  all = summed(e, all, output);
  std::erase_if(output, [&](int label) { return !has(all.labels, label); });
  return e.reshape(ordered(e, all, output), to_shape(to));
}

}  // namespace lamina::detail
