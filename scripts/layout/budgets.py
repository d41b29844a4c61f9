"""How much code each room may have: scripts/check-layout.py holds the tree to it.

Counted are lines that are neither blank nor comments, of C++, CUDA and Python. A room may have one percent more than its
line says, for mends; whoever needs more raises the line and says why behind it. What the rooms of a table have together
is held to the table's sum. A folder counts for the longest name here that it lies in.
"""

import re

EVERY_BUILD = {
    "framework": 31,
    "framework/base": 1_390,  # names that nothing is like, addresses, moving AVIF pictures; one word for a file that is not there; what is thrown that is no exception; kinds of Errors, the names of nodes before whatever is thrown; names of C++ in messages become those of the interface; files in memory, stops
    "framework/compile": 4_910,  # which channels do better as eights, and filters of zeros between products; sums of some channels; padding that convolutions take, numbers behind functions; layers over tokens as products of images channels first; what a GPU has no kernel for; whole biases; which outputs keep images apart; codes behind a turn; layouts by nature, parts of any concatenation in place, attention of channels first; the texts of a GPU's kernels; ports of counts; Maps that are read by one other become part of it; filters of zeros, f16's range
    "framework/cpu": 1_340,
    "framework/cpu/map": 140,  # the definition that every other way to run a Map is tested against
    "framework/cpu/array": 1_825,  # folds, which reductions, norms, softmax and affine layers share; turns of any element
    "framework/cpu/conv2d": 4_740,  # what is packed is asked of the one store; groups of few channels
    "framework/cpu/linear": 411,
    "framework/cpu/lookup": 940,  # rows that are repeated; RoiAlign; what is there once or more; what a run finds: true elements, boxes that stay; sums along an axis by whole pages; top-k by thresholds, corners of grid sampling once for all channels
    "framework/cpu/pool2d": 562,  # planes, which were turned to channels last for it
    "framework/cpu/product": 911,
    "framework/cpu/recurrent": 331,  # LSTM, GRU and RNN: steps of all cells, by images or by units
    "framework/cuda": 1_680,
    "framework/cuda/array": 250,
    "framework/cuda/conv2d": 13_090,  # images that stay channels first
    "framework/cuda/linear": 1_083,
    "framework/cuda/lookup": 1_415,  # what a run finds: places, boxes, counts; bins of boxes; an update for each thread
    "framework/cuda/map": 2_700,  # the generator, and the kernel for any Map
    "framework/cuda/product": 1_860,  # wide heads as two products; pointers that move on; tiles that a convolution of such images has, too; products of few terms, and of one column; few rows are a warp's; masks are read early and at once, narrow heads have kernels of their own
    "framework/cuda/ptx": 598,
    "framework/cuda/recurrent": 540,  # the same, all steps in a launch; on tensor cores, weights staying in shared memory
    "framework/cuda/runtime": 1_119,
    "framework/cuda/squeeze_excite": 630,  # a cluster of as many blocks as there are images for, slices of channels
    "framework/cuda/tensor_core": 559,
    "framework/files": 2_279,  # ONNX models among tensors
    "framework/graph": 2_315,  # branches of 16 bits; weights of another network in one line; inputs that are no photographs; whose weights alone are; usual ways for the size of a model's input; values know their graph, nearest keys; branches that a run takes as plans inside the plan; photographs for whole numbers are levels, damaged notes are said; loops, unrolled at compile or by a run; photographs without a batch; branches that a run takes; counts of outputs; what scores are, inputs with a value; pictures in every form, what exporters note
    "framework/images": 1_972,  # sizes in MB; which formats by name are Pillow's, files that end early; usual ways by name, which the command and Python had; resizing as OpenCV does, which was detect's alone; animated WebP, JPEG without its end
    "framework/kernel/map": 1_246,  # spreads; codes, reductions of nothing, several launches; what a Map is, which problems are Maps, and two of them as one, rolls and padding between them
    "framework/kernel": 2_960,  # members of geometries and of what else stands in problems are bound; zeros behind images; what a run finds, for both devices; samples of bins, for both devices; what of a problem each kernel reads, by construction; recurrent layers
    "framework/layers": 1_440,  # ops of one's own that are not known yet
    "framework/module": 470,  # parameters by the nearest
    "framework/ops": 5_450,  # between what numbers are that runs make, by interval arithmetic, and what a run may not do with nothing; places that a run makes: slices, pads, sizes; boxes that exporters name place by place; rows scattered by an index for each element; what attributes know, by the nearest; capacities; transforms, windows, angles and caches of decoders, scores of attention; sequences; operands with a count of reductions, TopK, slices, concatenations, scatters, gathers; sizes made of counts; Col2Im; values with a count, and which problem carries it where; rows of recurrent layers, several outputs of which are made once; of what ONNX Runtime fuses
    "framework/plan": 842,  # an image without its batch; what steps on the host met; results of as many as there are; counters; f16 is looked through as it is; results over what a run reads are refused; limits of a run
    "framework/pool": 588,
    "framework/tensor": 1_124,  # what is derived from weights stays beside plans of other sizes; matrices of weights scaled and turned by several threads; the one store of what kernels only read, of both devices
}
# Rooms that a build can leave out are counted apart.
LEFT_OUT = {
    "framework/c": 749,  # labels that a program gives, whether outputs have counts; capacities; reserved fields, labels and sides that do not agree; detectors, which are 178 lines: half are what the header says of them; constants; photographs in the form that a model takes; models from memory, limits, outputs by name, memory
    "framework/detect": 810,  # how many classes without names there are; classes and sizes that a model has not; of what a side has to be a multiple; boxes, scores and classes apart, with points or masks, names of COCO's 91; what exporters note is read by graph
    "framework/onnx": 2_407,  # trees are no networks; layers with weights are written; bodies of loops and scans; RoiAlign before opset 16; ops of several outputs are written; what ONNX Runtime's optimiser writes
    "framework/quantize": 1_095,  # biases and factors behind a transpose; a GELU that a file says in steps
}
TESTS = {"tests": 36_070, "tests/cuda/map": 1_562}  # ranges of numbers that runs make; odd channels, sums that are shared out alike; what C and .onnx files have since; which outputs keep images apart; what goes along a count, linear attention, odd filters, few channels; pages, what is hosted, labels of pictures; Maps of every type
# What a table may have as a whole. "Product and Map" allows 60,000 for the framework while it lands, and 54,500 when
# it has. It is beyond that by 475 and 220 of a CPU's poolings of planes: pooling, concatenation and eight bits have
# kernels beside Maps, and 690 lines are of "Attention, small products and eight bits", which allows 700; 360 of
# "Doors, second round", of which 40 were detect's and 150 are models from memory, stops and C; 840 of recurrent
# layers, three cells on two devices, and of codes; 930 of values with a count, and of what detectors need; 95 of what
# ONNX Runtime fuses; 240 of what is read and written where it lies. torchvision's detectors through detect are 90;
# loops and sequences 450, of which 40 are onnx's. Branches that a run takes are 295, capacities 30, ops of signals
# and decoders 230. Kinds of errors and nearest names of attributes are 90, and usual
# ways by a model's size 26. Steps on the host of a plan for a GPU are 90,
# bins of boxes and scatters by a thread for each update 240, and what a run finds on a GPU, boxes too, 400. Layers in
# .onnx files, labels and counts in C are 48. Recurrent layers on tensor cores are 250, layers over tokens 190,
# channels by eights and sums of some channels 330, places that a run makes 310, ranges of numbers that it makes 80, squeeze and excitation in parts 75. Members
# of what stands in problems are named in 10 lines more.
TABLES = ((EVERY_BUILD, 63_910), (LEFT_OUT, 5_105), (TESTS, 38_005))
ALL = {room: lines * 101 // 100 for room, lines in (EVERY_BUILD | LEFT_OUT | TESTS).items()}

COMMENTS = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.S)


def code_lines(name, text):
    """Lines that are neither blank nor comments."""
    if name.endswith(".py"):
        return sum(1 for line in text.splitlines() if line.strip() and not line.strip().startswith("#"))
    text = COMMENTS.sub(lambda m: '""' if m[0].startswith('"') else re.sub(r"[^\n]", "", m[0]), text)
    return sum(1 for line in text.splitlines() if line.strip())


def sums(code):
    """The tables whose rooms have more than they may have together; `code` holds the lines of each room."""
    return [f"scripts/layout/budgets.py:1: {', '.join(list(table)[:2])} ...: {total:,} lines, more than {limit:,}"
            for table, limit in TABLES if (total := sum(code.get(room, 0) for room in table)) > limit]


def show(code):
    """Prints what each room has; `code` holds its lines."""
    for table, limit in TABLES:
        for room in table:
            print(f"{code.get(room, 0):7,} of {ALL[room]:6,}  {room}")
        print(f"{sum(code.get(room, 0) for room in table):7,} of {limit:6,}\n")
