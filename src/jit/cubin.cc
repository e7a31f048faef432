#include "jit/cubin.h"

#include <cstdint>
#include <cstring>
#include <map>
#include <type_traits>

// The container is ELF64 (System V ABI); what CUDA adds to it is not documented. The facts below were read from images
// of NVRTC 12.4 to 13.0 and agree with `cuobjdump -res-usage` on them.

namespace kiln::jit {
namespace {

constexpr std::uint16_t kMachineCuda = 190;
// The two layouts of e_flags, told apart by the OS ABI: up to CUDA 12.8 (and later for GPUs before Blackwell) the
// architecture is in bits 0–7, in the newer one in bits 8–15.
constexpr std::uint8_t kAbiOld = 0x33;
constexpr std::uint8_t kAbiNew = 0x41;
constexpr std::uint32_t kSectionSymbols = 2;
constexpr std::uint32_t kSectionNoBits = 8;
constexpr std::uint8_t kSymbolFunction = 2;
constexpr std::uint8_t kSymbolOtherEntry = 0x10;  // a __global__ function
// Attributes of .nv.info: { format, attribute, 16-bit size or value, payload where the format has a size }.
constexpr std::uint8_t kFormatSized = 4;
constexpr std::uint8_t kAttributeFrameSize = 0x11;  // payload { symbol index, bytes }
constexpr std::uint8_t kAttributeRegisters = 0x2f;  // payload { symbol index, registers }
constexpr std::uint8_t kAttributeBarriers = 0x4c;   // value
// From 9.0 on a block's shared memory begins with a KiB of the system's, which the section's size counts.
constexpr int kReservedSharedFromSm = 90;
constexpr int kReservedSharedBytes = 1024;

struct Header {
  std::uint8_t ident[16];
  std::uint16_t type, machine;
  std::uint32_t version;
  std::uint64_t entry, program_offset, section_offset;
  std::uint32_t flags;
  std::uint16_t header_size, program_entry_size, num_programs, section_entry_size, num_sections, name_section;
};
static_assert(sizeof(Header) == 64);

struct Section {
  std::uint32_t name, type;
  std::uint64_t flags, address, offset, size;
  std::uint32_t link, info;
  std::uint64_t alignment, entry_size;
};
static_assert(sizeof(Section) == 64);

struct Program {
  std::uint32_t type, flags;
  std::uint64_t offset, virtual_address, physical_address, file_size, memory_size, alignment;
};
static_assert(sizeof(Program) == 56);

struct Symbol {
  std::uint32_t name;
  std::uint8_t info, other;
  std::uint16_t section;
  std::uint64_t value, size;
};
static_assert(sizeof(Symbol) == 24);

struct Malformed {
  std::string problem;
};

// Bytes that are only reached through bounds checks.
class View {
 public:
  explicit View(std::string_view bytes) : bytes_(bytes) {}

  std::string_view slice(std::uint64_t offset, std::uint64_t size, const std::string& what) const {
    if (offset > bytes_.size() || size > bytes_.size() - offset) {
      throw Malformed{what + " lies outside the image of " + std::to_string(bytes_.size()) + " bytes"};
    }
    return bytes_.substr(offset, size);
  }

  template <class T>
  T read(std::uint64_t offset, const std::string& what) const {
    static_assert(std::is_trivially_copyable_v<T>);
    T value;
    std::memcpy(&value, slice(offset, sizeof(T), what).data(), sizeof(T));
    return value;
  }

  // The text at `offset` up to its zero byte.
  std::string_view text(std::uint64_t offset, const std::string& what) const {
    const auto end = offset < bytes_.size() ? bytes_.find('\0', offset) : std::string_view::npos;
    if (end == std::string_view::npos) throw Malformed{what + " does not end"};
    return bytes_.substr(offset, end - offset);
  }

  std::uint64_t size() const { return bytes_.size(); }

 private:
  std::string_view bytes_;
};

struct NamedSection {
  Section header;
  std::string_view name;
  std::string_view bytes;  // empty for one that takes no room in the file
};

int to_int(std::uint64_t value) { return static_cast<int>(value & 0x7fffffff); }

Header read_header(const View& image) {
  const auto header = image.read<Header>(0, "the ELF header");
  if (std::memcmp(header.ident,
                  "\x7f"
                  "ELF",
                  4) != 0)
    throw Malformed{"it does not begin as an ELF image"};
  constexpr std::uint8_t kClass64 = 2;
  constexpr std::uint8_t kLittleEndian = 1;
  if (header.ident[4] != kClass64 || header.ident[5] != kLittleEndian || header.machine != kMachineCuda) {
    throw Malformed{"it is an ELF image, but not for CUDA"};
  }
  if (header.ident[7] != kAbiOld && header.ident[7] != kAbiNew) {
    throw Malformed{"its ABI " + std::to_string(header.ident[7]) + " is unknown"};
  }
  if (header.num_sections == 0 || header.section_entry_size != sizeof(Section) ||
      (header.num_programs > 0 && header.program_entry_size != sizeof(Program))) {
    throw Malformed{"its tables have entries of unknown size"};
  }
  return header;
}

void check_programs(const View& image, const Header& header) {
  for (std::uint16_t i = 0; i < header.num_programs; ++i) {
    const auto program =
        image.read<Program>(header.program_offset + std::uint64_t{i} * sizeof(Program), "a program header");
    image.slice(program.offset, program.file_size, "a segment");
  }
}

std::vector<NamedSection> read_sections(const View& image, const Header& header) {
  image.slice(header.section_offset, std::uint64_t{header.num_sections} * sizeof(Section), "the section table");
  std::vector<NamedSection> sections;
  for (std::uint16_t i = 0; i < header.num_sections; ++i) {
    NamedSection section;
    section.header =
        image.read<Section>(header.section_offset + std::uint64_t{i} * sizeof(Section), "a section header");
    if (section.header.type != kSectionNoBits) {
      section.bytes = image.slice(section.header.offset, section.header.size, "a section");
    }
    sections.push_back(section);
  }
  if (header.name_section >= sections.size()) throw Malformed{"its section names are missing"};
  const View names(sections[header.name_section].bytes);
  for (NamedSection& section : sections) section.name = names.text(section.header.name, "a section's name");
  return sections;
}

const NamedSection* find_section(const std::vector<NamedSection>& sections, const std::string& name) {
  for (const NamedSection& section : sections) {
    if (section.name == name) return &section;
  }
  return nullptr;
}

// Calls visit(attribute, value, payload) for each attribute of an .nv.info section.
template <class Visit>
void for_each_attribute(std::string_view bytes, Visit visit) {
  const View view(bytes);
  std::uint64_t offset = 0;
  while (offset < view.size()) {
    const auto format = view.read<std::uint8_t>(offset, "an attribute");
    const auto attribute = view.read<std::uint8_t>(offset + 1, "an attribute");
    const auto value = view.read<std::uint16_t>(offset + 2, "an attribute");
    offset += 4;
    std::string_view payload;
    if (format == kFormatSized) {
      payload = view.slice(offset, value, "an attribute");
      offset += value;
    }
    visit(attribute, value, payload);
  }
}

struct FunctionAttributes {
  int registers = 0;
  int frame_bytes = 0;
};

// By symbol index.
std::map<std::uint32_t, FunctionAttributes> read_function_attributes(const std::vector<NamedSection>& sections) {
  std::map<std::uint32_t, FunctionAttributes> functions;
  const NamedSection* info = find_section(sections, ".nv.info");
  if (info == nullptr) return functions;
  for_each_attribute(info->bytes, [&](std::uint8_t attribute, std::uint16_t, std::string_view payload) {
    if (attribute != kAttributeRegisters && attribute != kAttributeFrameSize) return;
    const View pair(payload);
    FunctionAttributes& function = functions[pair.read<std::uint32_t>(0, "an attribute")];
    const int value = to_int(pair.read<std::uint32_t>(4, "an attribute"));
    (attribute == kAttributeRegisters ? function.registers : function.frame_bytes) = value;
  });
  return functions;
}

int read_barriers(const std::vector<NamedSection>& sections, const NamedSection& code, const std::string& symbol) {
  // The older layout keeps them in the code section's flags.
  int barriers = to_int(code.header.flags >> 20 & 0x7f);
  const NamedSection* info = find_section(sections, ".nv.info." + symbol);
  if (info == nullptr) return barriers;
  for_each_attribute(info->bytes, [&](std::uint8_t attribute, std::uint16_t value, std::string_view) {
    if (attribute == kAttributeBarriers) barriers = value & 0xff;
  });
  return barriers;
}

int read_constant_bytes(const std::vector<NamedSection>& sections, const std::string& symbol) {
  static constexpr std::string_view kPrefix = ".nv.constant";
  int bytes = 0;
  for (const NamedSection& section : sections) {
    if (section.name.substr(0, kPrefix.size()) != kPrefix) continue;
    const auto dot = section.name.find('.', kPrefix.size());
    if (dot != std::string_view::npos && section.name.substr(dot + 1) == symbol) bytes += to_int(section.header.size);
  }
  return bytes;
}

CubinKernel read_kernel(const std::vector<NamedSection>& sections, int sm, std::string symbol, const NamedSection& code,
                        const FunctionAttributes& attributes) {
  CubinKernel kernel;
  kernel.registers = attributes.registers;
  kernel.local_bytes = attributes.frame_bytes;
  if (const NamedSection* shared = find_section(sections, ".nv.shared." + symbol)) {
    const int reserved = sm >= kReservedSharedFromSm ? kReservedSharedBytes : 0;
    const int bytes = to_int(shared->header.size);
    kernel.static_shared_bytes = bytes > reserved ? bytes - reserved : 0;
  }
  kernel.constant_bytes = read_constant_bytes(sections, symbol);
  kernel.barriers = read_barriers(sections, code, symbol);
  kernel.symbol = std::move(symbol);
  return kernel;
}

CubinInfo read_image(const View& image) {
  const Header header = read_header(image);
  check_programs(image, header);
  const auto sections = read_sections(image, header);
  const auto attributes = read_function_attributes(sections);

  CubinInfo info;
  info.sm = to_int(header.ident[7] == kAbiNew ? header.flags >> 8 & 0xff : header.flags & 0xff);
  for (const NamedSection& table : sections) {
    if (table.header.type != kSectionSymbols) continue;
    if (table.header.link >= sections.size()) throw Malformed{"its symbol names are missing"};
    const View names(sections[table.header.link].bytes);
    const View symbols(table.bytes);
    for (std::uint32_t i = 0; i < symbols.size() / sizeof(Symbol); ++i) {
      const auto symbol = symbols.read<Symbol>(std::uint64_t{i} * sizeof(Symbol), "a symbol");
      if ((symbol.info & 0xf) != kSymbolFunction || (symbol.other & kSymbolOtherEntry) == 0) continue;
      if (symbol.section >= sections.size()) throw Malformed{"a kernel's code is missing"};
      const auto found = attributes.find(i);
      info.kernels.push_back(read_kernel(sections, info.sm, std::string(names.text(symbol.name, "a symbol's name")),
                                         sections[symbol.section],
                                         found != attributes.end() ? found->second : FunctionAttributes{}));
    }
  }
  return info;
}

}  // namespace

std::optional<CubinInfo> read_cubin(std::string_view bytes, std::string* problem) {
  try {
    return read_image(View(bytes));
  } catch (const Malformed& malformed) {
    if (problem != nullptr) *problem = malformed.problem;
    return std::nullopt;
  }
}

}  // namespace kiln::jit
