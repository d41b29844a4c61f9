// What the table of cuda/recurrent is tried on.

#include "cuda/tables/examples.h"
#include "kernel/recurrent_reference.h"

namespace lamina::test {
namespace {

std::vector<Example<RecurrentProblem>> recurrent() {
  std::vector<Example<RecurrentProblem>> examples;
  for (const Cell cell : {Cell::rnn, Cell::gru, Cell::lstm}) {
    const auto example = [&](bool odd, RecurrentProblem problem, std::int64_t images,
                             const std::vector<std::int64_t>& lengths) {
      problem.cell = cell;
      const RecurrentCase drawn = draw_recurrent(problem, 3, images, 1, lengths);
      examples.push_back({odd, drawn.problem, drawn.inputs, drawn.output(), 4});
    };
    example(false, {.directions = 2, .hidden = 64}, 4, {});
    example(true, {.hidden = 37, .reverse = true, .initial = true}, 1, {});
    example(true, {.directions = 2, .hidden = 300, .initial = true}, 5, {3, 0, 1, 2, 3});
    example(true, {.directions = 2, .hidden = 36, .reset_after = true, .initial = true}, 13,
            {3, 0, 1, 2, 3, 3, 3, 1, 2, 0, 3, 3, 1});
    example(false, {.directions = 2, .hidden = 96, .reset_after = true}, 16, {});
    if (cell == Cell::gru) example(true, {.directions = 2, .hidden = 37, .reset_after = true}, 3, {});
  }
  return examples;
}

}  // namespace

void add_recurrent_rows(std::vector<TableRow>& rows) { add_example_rows<RecurrentProblem, recurrent>(rows); }

}  // namespace lamina::test
