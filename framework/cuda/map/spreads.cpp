// The sum of squared distances from the mean, of which a number, what mean and how many are known.

#include "lamina/cuda/map/elements.h"

namespace lamina::cuda {

/// Of two, as near as makes no difference to the mean of what was counted.
std::string Elements::quotient(const std::string& a, const std::string& b) {
  return t_.let(bank(), compute_ == DType::f32 ? "div.approx.f32" : "div.rn.f64", a, b);
}

Known Elements::spread_of(const std::vector<std::string>& numbers) {
  const auto count = static_cast<double>(numbers.size());
  std::vector<std::string> sums = numbers;
  for (; sums.size() > 1; sums.resize(sums.size() / 2)) {
    for (std::size_t i = 0; i < sums.size() / 2; ++i)
      sums[i] = t_.let(bank(), "add.rn." + type(), sums[i], sums[i + sums.size() / 2]);
  }
  const std::string mean = t_.let(bank(), "mul.rn." + type(), sums[0], number(1 / count));
  std::string squares = number(0);
  for (const std::string& x : numbers) {
    const std::string apart = t_.let(bank(), "sub.rn." + type(), x, mean);
    squares = t_.let(bank(), "fma.rn." + type(), apart, apart, squares);
  }
  return {squares, mean, in_register(number(count))};
}

std::string Elements::count_one(const Known& spread, const std::string& predicate) {
  t_.line_if(predicate, "add.rn." + type(), spread[2], spread[2], number(1));
  return quotient(in_register(number(1)), spread[2]);
}

void Elements::add_to_spread(const Known& spread, const std::string& x, const std::string& share,
                             const std::string& predicate) {
  const std::string apart = t_.let(bank(), "sub.rn." + type(), x, spread[1]);
  const std::string mean = t_.let(bank(), "fma.rn." + type(), apart, share, spread[1]);
  const std::string still_apart = t_.let(bank(), "sub.rn." + type(), x, mean);
  t_.line_if(predicate, "fma.rn." + type(), spread[0], apart, still_apart, spread[0]);
  t_.line_if(predicate, "mov." + type(), spread[1], mean);
}

void Elements::join_spreads(const std::vector<Known>& known, const std::vector<Known>& others,
                            const std::string& predicate) {
  const std::string mine = known[0][2], theirs = others[0][2];
  const std::string count = t_.let(bank(), "add.rn." + type(), mine, theirs);
  const std::string at_least_one = t_.let(bank(), "max." + type(), count, number(1));
  const std::string share = quotient(theirs, at_least_one);
  const std::string weight = t_.let(bank(), "mul.rn." + type(), mine, share);
  for (std::size_t j = 0; j < known.size(); ++j) {
    const std::string apart = t_.let(bank(), "sub.rn." + type(), others[j][1], known[j][1]);
    // In an order in which what is none makes 0, however far apart the means are.
    const std::string weighed = t_.let(bank(), "mul.rn." + type(), weight, apart);
    const std::string more = t_.let(bank(), "fma.rn." + type(), weighed, apart, others[j][0]);
    t_.line_if(predicate, "add.rn." + type(), known[j][0], known[j][0], more);
    t_.line_if(predicate, "fma.rn." + type(), known[j][1], apart, share, known[j][1]);
  }
  t_.line_if(predicate, "mov." + type(), mine, count);
}

}  // namespace lamina::cuda
