package profiles

import (
	"bytes"
	"embed"
	"fmt"
	"path"
	"strings"
)

//go:embed library/*.yaml
var library embed.FS

// Summary tells of a built-in profile.
type Summary struct {
	Name  string `json:"name"`
	About string `json:"about"`
}

// Builtin returns the built-in profile of that name, or Errors with the nearest
// name.
func Builtin(name string) (*Profile, error) {
	text, err := library.ReadFile(path.Join("library", name+".yaml"))
	if err != nil {
		return nil, Errors{{Message: fmt.Sprintf("there is no profile %q, neither a file nor built in", quotable(name)), Hint: didYouMean(name, builtinNames())}}
	}
	return Parse(bytes.NewReader(text), "built-in "+name+".yaml")
}

// Builtins lists the built-in profiles in order of their names.
func Builtins() []Summary {
	var list []Summary
	for _, name := range builtinNames() {
		p, err := Builtin(name)
		if err != nil {
			panic(err) // the library is part of the program and its tests
		}
		list = append(list, Summary{p.Name, p.About})
	}
	return list
}

func builtinNames() []string {
	entries, err := library.ReadDir("library")
	if err != nil {
		panic(err) // the folder is embedded
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = strings.TrimSuffix(e.Name(), ".yaml")
	}
	return names
}

//go:embed starter.yaml
var starter []byte

// Starter is a profile to start from, with remarks, as YAML.
func Starter() []byte { return bytes.Clone(starter) }
