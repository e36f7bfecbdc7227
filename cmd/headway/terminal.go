package main

import (
	"io"
	"os"
	"strconv"

	"github.com/headway-bench/headway/report/render"
)

// tableOptions fits a table to where it is written: as wide as the terminal,
// and in colour only there and unless NO_COLOR is set.
func tableOptions(w io.Writer) render.Options {
	width, ok := terminalWidth(w)
	if !ok {
		return render.Options{}
	}
	return render.Options{Width: width, Color: os.Getenv("NO_COLOR") == ""}
}

// terminalWidth returns the columns of the terminal behind w, and false where
// there is none.
func terminalWidth(w io.Writer) (int, bool) {
	file, ok := w.(*os.File)
	if !ok {
		return 0, false
	}
	width, ok := columnsOf(file)
	if set, err := strconv.Atoi(os.Getenv("COLUMNS")); ok && err == nil && set > 0 {
		width = set
	}
	return width, ok
}
