package bundle

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// ManifestSchema names the version of manifest.json.
const ManifestSchema = "headway.manifest/v1"

// Manifest says what a bundle holds and where it came from, so that it can be
// checked and repeated.
type Manifest struct {
	Schema       string `json:"schema"`
	ResultSchema string `json:"result_schema"`
	// SHA256 is the hash of this file with 64 zeros in place of the hash
	// itself, so that a change to the manifest shows too.
	SHA256         string    `json:"manifest_sha256"`
	Headway        Build     `json:"headway"`
	StartedAt      string    `json:"started_at"`
	Status         Status    `json:"status"`
	Seeds          Seeds     `json:"seeds"`
	ScheduleSHA256 string    `json:"schedule_sha256"`
	Target         string    `json:"target"`
	Server         Server    `json:"server"`
	Client         Client    `json:"client"`
	Files          []FileSum `json:"files"`
}

// Seeds are the origins of every random choice of the run.
type Seeds struct {
	Run      int64 `json:"run"`
	Workload int64 `json:"workload"`
}

// FileSum is the size and hash of one file of the bundle.
type FileSum struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

var zeroSum = strings.Repeat("0", 2*sha256.Size)

// manifest returns the bytes of manifest.json for the files in the partial
// directory.
func (w *Writer) manifest(r *Result) ([]byte, error) {
	m := Manifest{
		Schema: ManifestSchema, ResultSchema: Schema, SHA256: zeroSum,
		Headway: r.Headway, StartedAt: r.StartedAt, Status: r.Status,
		Seeds:          Seeds{Run: r.Seed, Workload: r.Profile.Workload.Seed},
		ScheduleSHA256: r.ScheduleSHA256, Target: r.Profile.Target.URL, Server: r.Server, Client: r.Client,
	}
	entries, err := os.ReadDir(w.partial)
	if err != nil {
		return nil, fmt.Errorf("list the bundle: %w", err)
	}
	for _, e := range entries {
		size, sum, err := hashFile(filepath.Join(w.partial, e.Name()))
		if err != nil {
			return nil, fmt.Errorf("hash %s: %w", e.Name(), err)
		}
		m.Files = append(m.Files, FileSum{Name: e.Name(), Bytes: size, SHA256: sum})
	}
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", ManifestFile, err)
	}
	b = append(b, '\n')
	own := sha256.Sum256(b)
	return bytes.Replace(b, []byte(zeroSum), []byte(hex.EncodeToString(own[:])), 1), nil
}

// readManifest decodes manifest.json and checks it against its own hash.
func readManifest(dir string) (*Manifest, error) {
	b, err := readBounded(filepath.Join(dir, ManifestFile))
	if err != nil {
		return nil, err
	}
	var m Manifest
	if err := decodeJSON(b, &m); err != nil {
		return nil, err
	}
	if m.Schema != ManifestSchema {
		return nil, schemaError(m.Schema, ManifestSchema)
	}
	if len(m.SHA256) != len(zeroSum) || bytes.Count(b, []byte(m.SHA256)) != 1 {
		return nil, errors.New("manifest_sha256 is missing or not 64 hexadecimal digits")
	}
	own := sha256.Sum256(bytes.Replace(b, []byte(m.SHA256), []byte(zeroSum), 1))
	if hex.EncodeToString(own[:]) != m.SHA256 {
		return &m, errors.New("differs from its own hash: it was changed after the run")
	}
	return &m, nil
}

// Verify checks a bundle: every file the manifest names is there and
// unchanged, none was added, the manifest itself is unchanged, the result
// holds to its schema and agrees with the manifest. It returns every finding,
// none when all is well.
func Verify(dir string) []error {
	m, err := readManifest(dir)
	if m == nil {
		return []error{&Finding{ManifestFile, notABundle(dir, err)}}
	}
	var out []error
	if err != nil {
		out = append(out, &Finding{ManifestFile, err})
	}
	out = append(out, verifyFiles(dir, m)...)
	b, err := Open(dir)
	if err != nil {
		return append(out, &Finding{ResultFile, err})
	}
	return append(out, verifyAgreement(m, b.Result)...)
}

// notABundle turns a missing manifest into advice.
func notABundle(dir string, err error) error {
	if errors.Is(err, syscall.ENOTDIR) {
		return fmt.Errorf("%s is a file: name the directory of the bundle", dir)
	}
	if errors.Is(err, fs.ErrNotExist) {
		if strings.Contains(filepath.Base(dir), ".partial-") {
			return fmt.Errorf("missing: the run that wrote %s was cut before it could finish", dir)
		}
		return fmt.Errorf("missing: %s is no bundle directory, or it was removed", dir)
	}
	return err
}

func verifyFiles(dir string, m *Manifest) []error {
	var out []error
	named := map[string]bool{ManifestFile: true}
	for _, f := range m.Files {
		if f.Name != filepath.Base(f.Name) || f.Name == ManifestFile || named[f.Name] {
			out = append(out, &Finding{ManifestFile, fmt.Errorf("names the file %q, which no bundle has", f.Name)})
			continue
		}
		named[f.Name] = true
		size, sum, err := hashFile(filepath.Join(dir, f.Name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			out = append(out, &Finding{f.Name, errors.New("missing")})
		case err != nil:
			out = append(out, &Finding{f.Name, err})
		case size != f.Bytes:
			out = append(out, &Finding{f.Name, fmt.Errorf("has %d bytes where %d were written", size, f.Bytes)})
		case sum != f.SHA256:
			out = append(out, &Finding{f.Name, errors.New("was changed after the run: its SHA-256 differs from the manifest's")})
		}
	}
	for _, must := range []string{ResultFile, RequestsFile, HistogramsFile, ProfileFile} {
		if !named[must] {
			out = append(out, &Finding{ManifestFile, fmt.Errorf("does not list %s", must)})
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return append(out, &Finding{dir, err})
	}
	for _, e := range entries {
		if !named[e.Name()] {
			out = append(out, &Finding{e.Name(), errors.New("was added after the run: the manifest does not name it")})
		}
	}
	return out
}

// verifyAgreement compares what result and manifest both say.
func verifyAgreement(m *Manifest, r *Result) []error {
	var out []error
	check := func(what string, same bool) {
		if !same {
			out = append(out, &Finding{ManifestFile, fmt.Errorf("%s differs from %s", what, ResultFile)})
		}
	}
	check("status", m.Status == r.Status)
	check("started_at", m.StartedAt == r.StartedAt)
	check("seeds", m.Seeds == Seeds{Run: r.Seed, Workload: r.Profile.Workload.Seed})
	check("schedule_sha256", m.ScheduleSHA256 == r.ScheduleSHA256)
	check("headway", m.Headway == r.Headway)
	check("client", m.Client == r.Client)
	check("server", m.Server.Engine == r.Server.Engine && m.Server.Version == r.Server.Version && m.Server.ModelID == r.Server.ModelID)
	return slices.Clip(out)
}
