package bundle

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// IndexSchema names the version of index.json.
const IndexSchema = "headway.index/v1"

// Index lists the bundles of a matrix, one a combination.
type Index struct {
	Schema  string       `json:"schema"`
	Name    string       `json:"name"`
	Bundles []IndexEntry `json:"bundles"`
}

// IndexEntry is one combination of a matrix: its bundle's directory below the
// index, and the value of each axis.
type IndexEntry struct {
	Dir         string            `json:"dir"`
	Combination map[string]string `json:"combination"`
	Status      Status            `json:"status"`
}

// WriteIndex writes index.json into dir, replacing an older one of the same
// matrix at once.
func WriteIndex(dir string, index Index) error {
	index.Schema = IndexSchema
	b, err := json.MarshalIndent(index, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", IndexFile, err)
	}
	f, err := os.CreateTemp(dir, "."+IndexFile+"-")
	if err != nil {
		return fmt.Errorf("write %s: %w", IndexFile, err)
	}
	_, err = f.Write(append(b, '\n'))
	if err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, IndexFile))
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", IndexFile, errors.Join(err, os.Remove(f.Name())))
	}
	return nil
}

// Directories returns the bundle directories at path: path itself, or those
// that the index of a matrix directory lists, which need not exist.
func Directories(path string) ([]string, error) {
	index, err := readIndex(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return []string{path}, nil
	}
	if err == nil && len(index.Bundles) == 0 {
		err = errors.New("it lists no bundle")
	}
	if err != nil {
		return nil, &Finding{IndexFile, err}
	}
	var dirs []string
	for _, e := range index.Bundles {
		dirs = append(dirs, filepath.Join(path, e.Dir))
	}
	return dirs, nil
}

// readIndex reads index.json of a matrix directory.
func readIndex(dir string) (*Index, error) {
	b, err := readBounded(filepath.Join(dir, IndexFile))
	if err != nil {
		return nil, err
	}
	var index Index
	if err := decodeJSON(b, &index); err != nil {
		return nil, err
	}
	if index.Schema != IndexSchema {
		return nil, schemaError(index.Schema, IndexSchema)
	}
	for i, e := range index.Bundles {
		if !filepath.IsLocal(e.Dir) || e.Dir == "." {
			return nil, fmt.Errorf("bundles[%d].dir %q is not below the matrix", i, e.Dir)
		}
	}
	return &index, nil
}
