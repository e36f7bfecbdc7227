package main

import (
	"fmt"
	"strconv"
	"strings"
)

// percent is a flag that takes a share with its sign, as 5%.
type percent struct{ ratio float64 }

func (p *percent) String() string {
	if p.ratio == 0 {
		return ""
	}
	return strconv.FormatFloat(p.ratio*100, 'g', -1, 64) + "%"
}

// Type names the value in the help.
func (p *percent) Type() string { return "N%" }

// Set reads a share above 0 % and up to 1000 %.
func (p *percent) Set(text string) error {
	number, ok := strings.CutSuffix(text, "%")
	n, err := strconv.ParseFloat(number, 64)
	if !ok || err != nil || !(n > 0) || n > 1000 {
		return fmt.Errorf("%q is no share; write it as 5%%", text)
	}
	p.ratio = n / 100
	return nil
}
