package main

import (
	"os"

	"golang.org/x/sys/windows"
)

// columnsOf returns the width of a terminal, and false for other files.
func columnsOf(file *os.File) (int, bool) {
	var info windows.ConsoleScreenBufferInfo
	if err := windows.GetConsoleScreenBufferInfo(windows.Handle(file.Fd()), &info); err != nil {
		return 0, false
	}
	return int(info.Window.Right-info.Window.Left) + 1, true
}
