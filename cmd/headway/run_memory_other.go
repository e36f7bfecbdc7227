//go:build !linux

package main

// memoryBytes is the memory of this machine; 0 says that it is not known here.
func memoryBytes() int64 { return 0 }
