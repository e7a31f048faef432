#include "tuner/cli/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>

#include "tuner/cli/output.h"

namespace kiln::cli {
namespace {

constexpr std::size_t kBarWidth = 24;
constexpr std::chrono::milliseconds kRedrawInterval{80};

std::size_t terminal_width() {
  winsize size{};
  constexpr std::size_t kUsual = 80;
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kUsual;
  return size.ws_col;
}

// The first `width` characters; never half of one.
std::string cut(const std::string& text, std::size_t width) {
  std::size_t end = 0;
  for (std::size_t count = 0; end < text.size(); ++end) {
    if ((static_cast<unsigned char>(text[end]) & 0xC0U) != 0x80U && ++count > width) break;
  }
  return text.substr(0, end);
}

}  // namespace

Progress::Progress(Style style) : terminal_(style == Style::automatic && isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() { clear(); }

void Progress::line(const std::string& text) {
  clear();
  std::cerr << text << '\n';
}

void Progress::bar(double share, const std::string& text) {
  if (!terminal_) return;
  const auto now = std::chrono::steady_clock::now();
  if (drawn_ && now - last_draw_ < kRedrawInterval) return;
  const auto filled = static_cast<std::size_t>(std::clamp(share, 0.0, 1.0) * kBarWidth);
  std::string line =
      "[" + std::string(filled, '#') + std::string(kBarWidth - filled, '.') + "] " + percent(share) + "  " + text;
  clear();
  std::cerr << cut(line, terminal_width() - 1) << std::flush;
  drawn_ = true;
  last_draw_ = now;
}

void Progress::clear() {
  if (!drawn_) return;
  std::cerr << "\r\033[K" << std::flush;
  drawn_ = false;
}

}  // namespace kiln::cli
