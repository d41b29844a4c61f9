// Every way a PyTorch file can be wrong or hostile, one case each.

#include <limits>
#include <ostream>

#include "files/torch/pickle_writer.h"
#include "support/file_test.h"

namespace lamina::test::pth_malformed_test {
namespace {

using namespace pickle;

std::string with_type(const std::string& type) {
  return pth(dict({{"t", tensor(storage("0", 6, type), 0, {2, 3}, {3, 1})}}), {{"0", floats(6)}});
}

/// A file whose object pickle is `code`, which should be refused before any storage is looked at.
std::string with_code(const std::string& code) { return pth(code, {}); }

struct Case {
  const char* name;
  std::string bytes;
  std::vector<std::string> words;  // of the message
};

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

/// Calls that a hostile pickle could make, each by another way of naming a global.
std::vector<Case> hostile() {
  const std::string system = tuple({text("touch /tmp/pwned")}) + 'R';
  return {
      {"OsSystem", with_code(global("os", "system") + system), {"os.system", "nothing was executed"}},
      {"PosixSystem", with_code(global("posix", "system") + system), {"posix.system", "nothing was executed"}},
      {"BuiltinsEval", with_code(global("builtins", "eval") + system), {"builtins.eval"}},
      {"NeverCalled", with_code(global("subprocess", "Popen") + '.'), {"subprocess.Popen"}},
      {"StackGlobal", with_code(text("os") + text("system") + '\x93' + system), {"os.system", "nothing was executed"}},
      {"OtherNameOfCollections", with_code(global("collections", "defaultdict")), {"collections.defaultdict"}},
      {"OtherNameOfTorchUtils", with_code(global("torch._utils", "_import_dotted_name")), {"_import_dotted_name"}},
      {"OtherNameOfTorch", with_code(global("torch", "load")), {"torch.load"}},
      {"StorageElsewhere", with_code(global("evil", "FloatStorage")), {"evil.FloatStorage"}},
      {"StorageBelowTorch", with_code(global("torch.evil", "FloatStorage")), {"torch.evil.FloatStorage"}},
      {"DottedStorage", with_code(text("torch") + text("hub.load.Storage") + '\x93'), {"torch.hub.load.Storage"}},
      {"Module", with_code(global("torch.nn.modules.linear", "Linear")), {"linear.Linear", "model.state_dict()"}},
      {"CalledStorage", with_code(global("torch", "FloatStorage") + ")R"), {"calls torch.FloatStorage"}},
      {"CalledText", with_code(text("os.system") + ")R"), {"calls a string"}},
      {"Inst", with_code("(ios\nsystem\n"), {"opcode 105", "nothing was executed"}},
      {"Obj", with_code("(" + global("collections", "OrderedDict") + "o"), {"opcode 111"}},
      {"NewObj",
       with_code(global("collections", "OrderedDict") + ")\x81"),
       {"it makes an object", "nothing was executed"}},
      {"CalledNamespace", with_code(global("argparse", "Namespace") + ")R"), {"calls argparse.Namespace"}},
      {"Extension", with_code("\x82\x01"), {"opcode 130"}},
      {"TextPersistentId", with_code("Pstorage\n"), {"opcode 80"}},
      {"GlobalInLegacyFile", legacy_front() + whole(global("os", "system") + system), {"os.system"}},
      {"GlobalAsFirstPickle", whole(global("os", "system") + system), {"os.system", "nothing was executed"}},
      {"BuildOnATensor", with_code(good_tensor + "}b"), {"expected an OrderedDict", "a tensor"}},
  };
}

std::vector<Case> malformed_pickles() {
  const auto parameter = [](const std::string& data) {
    return global("torch._utils", "_rebuild_parameter") + tuple({data, "\x89", ordered_dict}) + 'R';
  };
  return {
      {"NoProtocol", zip({{"net/data.pkl", "}."}}), {"malformed pickle", "protocol"}},
      {"Protocol1", zip({{"net/data.pkl", "\x80\x01}."}}), {"malformed pickle", "protocol", "got 1"}},
      {"Protocol9", zip({{"net/data.pkl", "\x80\x09}."}}), {"malformed pickle", "protocol", "got 9"}},
      {"Empty", zip({{"net/data.pkl", ""}}), {"malformed pickle", "truncated"}},
      {"NoStop", zip({{"net/data.pkl", "\x80\x02}"}}), {"malformed pickle", "truncated"}},
      {"EmptyStackAtStop", with_code(""), {"malformed pickle", "empty stack"}},
      {"TruncatedText",
       with_code("X\xff\xff\xff\xff"
                 "abc"),
       {"malformed pickle", "truncated"}},
      {"TruncatedGlobal", with_code("ctorch"), {"malformed pickle", "truncated"}},
      {"TruncatedLong",
       with_code("\x8a\xff"
                 "a"),
       {"malformed pickle", "truncated"}},
      {"MarkMissing", with_code("}t"), {"malformed pickle", "no mark"}},
      {"PopBelowMark", with_code("}(s"), {"malformed pickle", "empty stack"}},
      {"Tuple3OfTwo", with_code("NN\x87"), {"malformed pickle", "empty stack"}},
      {"AppendToDict", with_code("}Na"), {"malformed pickle", "expected a list", "a dict"}},
      {"SetItemOfList", with_code("]NNs"), {"malformed pickle", "expected a dict", "a list"}},
      {"OddSetItems", with_code("}(Nu"), {"malformed pickle", "without a value"}},
      {"MemoNotStored", with_code("h\x07"), {"malformed pickle", "recalls value 7"}},
      {"MemoOfEmptyStack", with_code("q\x01"), {"malformed pickle", "empty stack"}},
      {"ReduceWithoutTuple", with_code(global("collections", "OrderedDict") + "]R"), {"a list", "instead of a tuple"}},
      {"OrderedDictOfNumbers", with_code(global("collections", "OrderedDict") + "](K\1K\2e\x85R"), {"OrderedDict"}},
      {"StackGlobalOfNumbers", with_code("K\1K\2\x93"), {"expected a string", "an integer"}},
      {"TooManyValues", with_code(std::string(5'000'000, 'N')), {"more than", "values"}},
      {"TooManyMarks", with_code(std::string(5'000'000, '(')), {"more than", "values"}},
      {"DeepNesting", with_code("N" + std::string(1'000'000, '\x85')), {"expected a state dict", "a tuple"}},
      {"ParameterOfAParameter",
       with_code(dict({{"t", parameter(parameter(good_tensor))}})),
       {"without tensors", "\"t\""}},
      {"Pop", with_code("N0"), {"opcode 48"}},
      {"ListOfItself", with_code("]q\1h\1a"), {"expected a state dict", "a list"}},
      {"DictOfItself", with_code("}q\1" + text("state_dict") + "h\1s"), {"without tensors", "\"state_dict\" (a dict)"}},
      {"Number", with_code("K\7"), {"expected a state dict", "an integer"}},
      {"NoTensors", with_code(dict({{"epoch", "K\1"}})), {"without tensors", "\"epoch\" (an integer)"}},
      {"NumberedTensors", with_code("}(K\1" + good_tensor + "u"), {"expected a string for the name", "an integer"}},
      {"SameNameTwice",
       pth(dict({{"t", good_tensor}, {"t", good_tensor}}), {{"0", floats(6)}}),
       {"two tensors", "\"t\""}},
  };
}

std::vector<Case> malformed_tensors() {
  const auto object = [](const std::string& arguments) {
    return with_code(dict({{"t", global("torch._utils", "_rebuild_tensor_v2") + arguments + 'R'}}));
  };
  const auto stored = [](const std::string& id) { return with_code(dict({{"t", tensor(id + 'Q', 0, {1}, {1})}})); };
  const std::string type = global("torch", "FloatStorage");
  const std::string six = storage("0", 6);
  return {
      {"TooFewArguments", object(tuple({six})), {"\"t\"", "got 1 values"}},
      {"NoStorage", object(tuple({"N", "K\1", sizes({1}), sizes({1})})), {"\"t\"", "expected a storage", "None"}},
      {"NegativeOffset", one_tensor(-1, {1}, {1}), {"\"t\"", "offset"}},
      {"TextOffset", object(tuple({six, text("0"), sizes({1}), sizes({1})})), {"\"t\"", "offset"}},
      {"NegativeShape", one_tensor(0, {-2}, {1}), {"\"t\"", "shape"}},
      {"ListShape", object(tuple({six, "K\1", "]", sizes({1})})), {"\"t\"", "shape"}},
      {"NegativeStride", one_tensor(5, {6}, {-1}), {"\"t\"", "strides"}},
      {"StridesOfAnotherRank", one_tensor(0, {2, 3}, {1}), {"\"t\"", "stride per dimension", "[2, 3]", "[1]"}},
      {"SixtyFiveDimensions",
       one_tensor(0, std::vector<std::int64_t>(65, 1), std::vector<std::int64_t>(65, 1)),
       {"\"t\"", "at most 64"}},
      {"ShapeOverflow", one_tensor(0, {1LL << 40, 1LL << 40}, {0, 0}), {"\"t\"", "overflows"}},
      {"SizeOverflow", one_tensor(0, {1LL << 62}, {0}), {"\"t\"", "overflows"}},
      {"PastTheEnd", one_tensor(0, {7}, {1}), {"\"t\"", "[7]", "past the end", "6 elements"}},
      {"OffsetPastTheEnd", one_tensor(6, {1}, {1}), {"\"t\"", "element 6", "past the end"}},
      {"StridePastTheEnd", one_tensor(0, {2, 2}, {5, 1}), {"\"t\"", "[5, 1]", "past the end"}},
      {"StrideOverflow", one_tensor(0, {3}, {1LL << 62}), {"\"t\"", "past the end"}},
      {"StridesOverflowTogether",
       one_tensor(1, {2, 2, 2}, {1LL << 62, 1LL << 62, 1LL << 62}),
       {"\"t\"", "past the end"}},
      {"OffsetOverflow", one_tensor(std::numeric_limits<std::int64_t>::max(), {2}, {1}), {"\"t\"", "past the end"}},
      {"StorageTooShort", pth(good_object, {{"0", floats(5)}}), {"\"t\"", "24 bytes", "got 20"}},
      {"StorageMissing", pth(good_object, {{"1", floats(6)}}), {"no entry", "net/data/0"}},
      {"StorageSizeOverflow", with_code(dict({{"t", tensor(storage("0", 1LL << 62), 0, {1}, {1})}})), {"overflows"}},
      {"StorageNotATuple", stored(text("0")), {"malformed storage", "a string"}},
      {"StorageTupleOfFour", stored(tuple({text("storage"), type, text("0"), text("cpu")})), {"malformed storage"}},
      {"NotAStorage", stored(tuple({text("module"), type, text("0"), text("cpu"), "K\1"})), {"the word \"storage\""}},
      {"StorageClassText", stored(tuple({text("storage"), text("f"), text("0"), "N", "K\1"})), {"storage class"}},
      {"StorageClassOther",
       stored(tuple({text("storage"), global("collections", "OrderedDict"), text("0"), "N", "K\1"})),
       {"storage class"}},
      {"StorageClassUnknown", with_type("QInt8Storage"), {"unknown class", "torch.QInt8Storage"}},
      {"StorageKeyNumber", stored(tuple({text("storage"), type, "K\1", "N", "K\1"})), {"key", "an integer"}},
      {"StorageKeyLong",
       stored(tuple({text("storage"), type, text(std::string(1000, '0')), "N", "K\1"})),
       {"too long"}},
      {"StorageNegative", with_code(dict({{"t", tensor(storage("0", -1), 0, {1}, {1})}})), {"number of elements"}},
      {"StorageKeyLeavesTheFolder",
       with_code(dict({{"t", tensor(storage("../../etc/passwd", 1), 0, {1}, {1})}})),
       {"no entry", "passwd"}},
      {"ByteorderUnknown",
       zip({{"net/data.pkl", whole(good_object)}, {"net/byteorder", "middle"}, {"net/data/0", floats(6)}}),
       {"byteorder", "\"middle\""}},
  };
}

std::vector<Case> malformed_zips() {
  const std::string good = pth(good_object, {{"0", floats(6)}});
  const std::vector<ZipEntry> entries = {{"net/data.pkl", whole(good_object)}, {"net/data/0", floats(6)}};
  const auto changed = [&](auto&& change) {
    auto copy = entries;
    change(copy);
    return copy;
  };
  const auto patched = [&](std::size_t at_directory, const std::string& bytes) {
    ZipParts parts = zip_parts(entries);
    parts.directory.replace(at_directory, bytes.size(), bytes);
    return parts.join();
  };
  ZipParts without_extra = zip_parts(changed([](auto& e) { e[1].zip64 = true; }));
  without_extra.directory[without_extra.directory.rfind(std::string("\1\0\x18", 3))] = '\2';  // another extra field
  std::string bad_locator = zip_parts(entries).join64();
  bad_locator.replace(bad_locator.size() - 22 - 20 + 8, 8, raw(~std::uint64_t{0}));
  std::string bad_record = zip_parts(entries).join64();
  bad_record.replace(bad_record.rfind("PK\6\6"), 4, "PKxx");
  ZipParts many = zip_parts(entries);
  many.count = 3;
  return {
      {"OnlyMagic", "PK\3\4", {"damaged zip", "no end record"}},
      {"Truncated", good.substr(0, good.size() / 2), {"damaged zip", "no end record", "truncated"}},
      {"OneByteShort", good.substr(0, good.size() - 1), {"damaged zip", "no end record"}},
      {"TrailingByte", good + "x", {"damaged zip", "no end record"}},
      {"CommentTooLong",
       zip_parts(entries).entries + zip_parts(entries).directory + zip_parts(entries).end(9),
       {"damaged zip", "no end record"}},
      {"Compressed", zip(changed([](auto& e) { e[1].method = 8; })), {"net/data/0", "compressed", "method 8"}},
      {"CompressedPickle", zip(changed([](auto& e) { e[0].method = 8; })), {"net/data.pkl", "compressed"}},
      {"Encrypted", zip(changed([](auto& e) { e[1].flags = 1; })), {"net/data/0", "encrypted"}},
      {"SameNameTwice", zip(changed([](auto& e) { e.push_back(e[1]); })), {"two entries", "net/data/0"}},
      {"TwoPickles",
       zip(changed([](auto& e) {
         e.push_back({"other/data.pkl", ""});
       })),
       {"expected one data.pkl", "net/data.pkl", "other/data.pkl"}},
      {"NoPickle", zip({{"word/document.xml", ""}}), {"no data.pkl", "torch.save"}},
      {"SuffixOfAnotherWord", zip({{"net/notdata.pkl", "\x80\x02}."}}), {"no data.pkl"}},
      {"NoEntries", zip({}), {"no data.pkl"}},
      {"ArrayAmongOthers", zip({{"word/document.xml", ""}, {"a.npy", ""}}), {"no data.pkl", "torch.save"}},
      {"TorchScript",
       zip(changed([](auto& e) {
         e.push_back({"net/constants.pkl", ""});
       })),
       {"TorchScript"}},
      {"DirectoryOutOfBounds",
       [&] {
         std::string bytes = good;
         return bytes.replace(bytes.size() - 6, 4, raw(std::uint32_t{1'000'000}));
       }(),
       {"damaged zip", "directory", "past the end"}},
      {"MoreEntriesThanDirectory", many.join(), {"expected 3 entries", "found 2"}},
      {"BadCentralSignature", patched(0, "PKxx"), {"expected 2 entries", "found 0"}},
      {"NameOverrunsDirectory", patched(28, "\xff\xff"), {"overruns its directory"}},
      {"StoredSizeDiffers", patched(20, raw(std::uint32_t{1})), {"net/data.pkl", "stored as 1"}},
      {"SizePastTheEnd",
       patched(20, raw(std::uint32_t{100'000}) + raw(std::uint32_t{100'000})),
       {"net/data.pkl", "past the end"}},
      {"HeaderPastTheEnd", patched(42, raw(std::uint32_t{100'000})), {"net/data.pkl", "past the end"}},
      {"HeaderElsewhere", patched(42, raw(std::uint32_t{1})), {"net/data.pkl", "no local header"}},
      {"Zip64WithoutExtra", without_extra.join(), {"net/data/0", "zip64"}},
      {"Zip64LocatorPastTheEnd", bad_locator, {"zip64 end record", "past the end"}},
      {"Zip64RecordMissing", bad_record, {"no zip64 end record"}},
      {"Zip64LocatorMissing",
       zip_parts(entries).entries + "PK\5\6" + std::string(4, '\0') + std::string(12, '\xff') + std::string(2, '\0'),
       {"no zip64 locator"}},
  };
}

std::vector<Case> malformed_legacy() {
  const auto view = [](std::int64_t begin, std::int64_t size) {
    return legacy_pth(
        dict({{"t", tensor(storage("0", 6, "FloatStorage", tuple({text("v"), integer(begin), integer(size)})), 0, {2},
                           {1})}}),
        {{"0", floats(6)}}, 6);
  };
  const std::string two_types = dict({{"a", good_tensor}, {"b", tensor(storage("0", 6, "IntStorage"), 0, {6}, {1})}});
  std::string tar(512, '\0');
  tar.replace(257, 5, "ustar");
  return {
      {"BarePickle", whole("}"), {"pickle", "not one that torch.save wrote"}},
      {"OtherMagic", whole("\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x18"), {"not one that torch.save wrote"}},
      {"OnlyMagic", legacy_front().substr(0, 15), {"malformed pickle", "truncated"}},
      {"OtherVersion", legacy_front("M\xe8\x03"), {"expected version 1001", "got 1000"}},
      {"TextVersion", legacy_front(text("1001")), {"expected version 1001", "a string"}},
      {"SystemNotADict", legacy_front().substr(0, 21) + whole("]"), {"system properties", "a list"}},
      {"BigEndian", legacy_front("M\xe9\x03", "\x89") + whole(good_object) + whole("]"), {"big-endian"}},
      {"KeysMissing", legacy_front() + whole(good_object), {"malformed pickle", "truncated"}},
      {"KeysNotAList", legacy_front() + whole(good_object) + whole("}"), {"list of storage keys", "a dict"}},
      {"KeyNotText", legacy_front() + whole(good_object) + whole("](K\1e"), {"storage keys", "an integer"}},
      {"KeyUnknown", legacy_pth(good_object, {{"9", floats(6)}}, 6), {"\"9\"", "no tensor uses"}},
      {"KeyTwice", legacy_pth(good_object, {{"0", floats(6)}, {"0", floats(6)}}, 6), {"\"0\" twice"}},
      {"KeyNotListed", legacy_pth(good_object, {}, 6), {"no storage \"0\""}},
      {"CountDiffers", legacy_pth(good_object, {{"0", floats(6)}}, 5), {"\"0\"", "expected 6 elements", "got 5"}},
      {"CountTruncated",
       legacy_pth(good_object, {{"0", ""}}, 6).substr(0, legacy_pth(good_object, {{"0", ""}}, 6).size() - 1),
       {"\"0\"", "expected 8 bytes", "got 7", "truncated"}},
      {"DataTruncated",
       legacy_pth(good_object, {{"0", floats(5)}}, 6),
       {"\"0\"", "expected 24 bytes", "got 20", "truncated"}},
      {"TwoTypesForAKey", legacy_pth(two_types, {{"0", floats(6)}}, 6), {"two different storages", "\"0\""}},
      {"ViewPastTheEnd", view(5, 2), {"view", "exceeds 6 elements"}},
      {"ViewOverflows", view(2, std::numeric_limits<std::int64_t>::max()), {"view", "exceeds 6 elements"}},
      {"ViewNegative", view(-1, 2), {"view"}},
      {"ViewTooSmall", view(0, 1), {"\"t\"", "past the end of its storage of 1"}},
      {"Tar", tar, {"tar archive", "torch.load", "save it again"}},
  };
}

class MalformedPth : public testing::TestWithParam<Case> {};

TEST_P(MalformedPth, IsRefused) {
  std::vector<std::string> words = GetParam().words;
  words.push_back("x.pth");
  expect_error([&] { open_pth(GetParam().bytes); }, words);
}

std::string case_name(const testing::TestParamInfo<Case>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(Hostile, MalformedPth, testing::ValuesIn(hostile()), case_name);
INSTANTIATE_TEST_SUITE_P(Pickle, MalformedPth, testing::ValuesIn(malformed_pickles()), case_name);
INSTANTIATE_TEST_SUITE_P(Tensor, MalformedPth, testing::ValuesIn(malformed_tensors()), case_name);
INSTANTIATE_TEST_SUITE_P(Zip, MalformedPth, testing::ValuesIn(malformed_zips()), case_name);
INSTANTIATE_TEST_SUITE_P(Legacy, MalformedPth, testing::ValuesIn(malformed_legacy()), case_name);

}  // namespace
}  // namespace lamina::test::pth_malformed_test
