// SPDX-License-Identifier: GPL-2.0-only
/* Runs a target over the files of folders, in the order of their names, without libFuzzer: replay FOLDER... */
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size);

int main(int argc, char **argv)
{
	std::vector<std::filesystem::path> files;

	for (int i = 1; i < argc; i++)
		for (const auto &entry : std::filesystem::directory_iterator(argv[i]))
			files.push_back(entry.path());
	if (files.empty()) {
		std::fprintf(stderr, "usage: replay FOLDER..., with files in them\n");
		return 2;
	}
	std::sort(files.begin(), files.end());
	for (const auto &file : files) {
		std::ifstream in(file, std::ios::binary);
		const std::vector<char> bytes{std::istreambuf_iterator<char>(in), {}};

		if (!in) {
			std::perror(file.c_str());
			return 1;
		}
		(void)LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t *>(bytes.data()),
					     bytes.size());
	}
	std::printf("%zu inputs\n", files.size());
}
