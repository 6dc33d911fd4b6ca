# A thin front for people; CMake and CTest do the work.
.PHONY: build
BUILD := build

build:
	@cmake --preset release >/dev/null
	@cmake --build --preset release
