package bundle

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/klauspost/compress/zstd"
)

// The files of a bundle.
const (
	ResultFile     = "result.json"
	RequestsFile   = "requests.jsonl.zst"
	HistogramsFile = "histograms.hlog"
	ProfileFile    = "profile.yaml"
	ManifestFile   = "manifest.json"
	MarkdownFile   = "report.md"
	HTMLFile       = "report.html"
	IndexFile      = "index.json"
)

// Page is a file made of the finished result, such as report.html. Write gets
// the bundle as far as it is written: result, requests, histograms, profile.
type Page struct {
	Name  string
	Write func(io.Writer, *Bundle) error
}

// Writer writes one bundle under a temporary name beside its final one and
// renames it when all of it is on disk. It is not safe for concurrent use, but
// for what Requests returns.
type Writer struct {
	final, partial string
	requests       *requestLog
	hist           *os.File
	histBuf        *bufio.Writer
	histLog        *hdrhistogram.HistogramLogWriter
	err            error // the first write that failed
}

// Create starts a bundle that is to be at dir, and makes dir's parents. It
// fails with ErrExists when anything is there.
func Create(dir string) (*Writer, error) {
	if err := mustNotExist(dir); err != nil {
		return nil, err
	}
	parent, name := filepath.Split(filepath.Clean(dir))
	if parent == "" {
		parent = "."
	}
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return nil, fmt.Errorf("make the bundle's parent directory: %w", err)
	}
	partial, err := os.MkdirTemp(parent, "."+name+".partial-")
	if err != nil {
		return nil, fmt.Errorf("start a bundle in %s: %w", parent, err)
	}
	w := &Writer{final: filepath.Clean(dir), partial: partial}
	if err := w.open(); err != nil {
		return nil, errors.Join(err, w.Discard())
	}
	return w, nil
}

// mustNotExist fails with ErrExists when anything is at dir.
func mustNotExist(dir string) error {
	_, err := os.Lstat(dir)
	switch {
	case err == nil:
		return fmt.Errorf("bundle directory %s %w: choose another --out or move it away", dir, ErrExists)
	case errors.Is(err, fs.ErrNotExist):
		return nil
	default:
		return fmt.Errorf("look for bundle directory: %w", err)
	}
}

func (w *Writer) open() error {
	if err := os.Chmod(w.partial, 0o755); err != nil {
		return fmt.Errorf("start a bundle: %w", err)
	}
	var err error
	if w.requests, err = newRequestLog(filepath.Join(w.partial, RequestsFile)); err != nil {
		return err
	}
	if w.hist, err = os.Create(filepath.Join(w.partial, HistogramsFile)); err != nil {
		return fmt.Errorf("start the histograms: %w", err)
	}
	if err := os.WriteFile(w.reserve(), make([]byte, reserved), 0o600); err != nil {
		return fmt.Errorf("reserve space for %s: %w", ResultFile, err)
	}
	w.histBuf = bufio.NewWriter(w.hist)
	w.histLog = hdrhistogram.NewHistogramLogWriter(w.histBuf)
	return errors.Join(w.histLog.OutputLogFormatVersion(), w.histLog.OutputLegend())
}

// reserved is the space kept free for result.json, so that a disk that the
// requests fill still takes what was measured.
const reserved = 512 << 10

// reserve is the file that keeps the space.
func (w *Writer) reserve() string { return filepath.Join(w.partial, ".reserve") }

// Path is where the bundle is while it is being written.
func (w *Writer) Path() string { return w.partial }

// Requests takes the lines of requests.jsonl and compresses them as they
// come. Its first error stays and is reported by Finish too.
func (w *Writer) Requests() io.Writer { return w.requests }

// Histograms appends the histograms of one rung, each under the tag
// "rung<index>/<name>", and makes what was written so far durable. Values are
// in the unit that the name's ending says; start and end are the window's.
func (w *Writer) Histograms(rung int, set map[string]*hdrhistogram.Histogram, start, end time.Time) error {
	names := make([]string, 0, len(set))
	for name := range set {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		h := set[name]
		h.SetTag(fmt.Sprintf("rung%d/%s", rung, name))
		h.SetStartTimeMs(start.UnixMilli())
		h.SetEndTimeMs(end.UnixMilli())
		if err := w.histLog.OutputIntervalHistogram(h); err != nil {
			w.keep(fmt.Errorf("write %s: %w", HistogramsFile, err))
			return w.err
		}
	}
	w.keep(wrap(w.histBuf.Flush(), HistogramsFile))
	w.keep(w.requests.Flush())
	return w.err
}

// keep remembers the first failure.
func (w *Writer) keep(err error) {
	if w.err == nil {
		w.err = err
	}
}

// Discard removes what was written, when there is nothing worth keeping.
func (w *Writer) Discard() error {
	if w.requests != nil {
		w.requests.abandon()
	}
	if w.hist != nil {
		w.hist.Close()
	}
	return os.RemoveAll(w.partial)
}

// Finish writes the rest of the bundle and gives it its final name. When any
// part can't be written it returns a *PartialError, nothing is under the final
// name, and what was measured stays under the partial one.
func (w *Writer) Finish(r *Result, pages ...Page) error {
	r.normalise()
	// The result comes first: on a full disk it is the part to save.
	w.keep(errors.Join(os.Remove(w.reserve()), w.writeResult(r)))
	w.keep(w.requests.Close())
	w.keep(wrap(w.histBuf.Flush(), HistogramsFile))
	w.keep(closeSynced(w.hist))
	if w.err == nil {
		w.keep(w.complete(r, pages))
	}
	if w.err != nil {
		return &PartialError{Dir: w.partial, Err: w.err}
	}
	return nil
}

func (w *Writer) writeResult(r *Result) error {
	b, err := Encode(r)
	if err != nil {
		return err
	}
	return w.file(ResultFile, func(out io.Writer) error { _, err := out.Write(b); return err })
}

// complete writes what is made of the measured files, then renames.
func (w *Writer) complete(r *Result, pages []Page) error {
	y, err := r.Profile.YAML()
	if err != nil {
		return fmt.Errorf("write %s: %w", ProfileFile, err)
	}
	if err := w.file(ProfileFile, func(out io.Writer) error { _, err := out.Write(y); return err }); err != nil {
		return err
	}
	made := &Bundle{Path: w.partial, Dir: w.partial, Result: r}
	for _, p := range pages {
		if err := w.file(p.Name, func(out io.Writer) error { return p.Write(out, made) }); err != nil {
			return err
		}
	}
	m, err := w.manifest(r)
	if err != nil {
		return err
	}
	if err := w.file(ManifestFile, func(out io.Writer) error { _, err := out.Write(m); return err }); err != nil {
		return err
	}
	return w.rename()
}

// rename syncs the directory, gives it its final name and syncs its parent.
func (w *Writer) rename() error {
	if err := syncDir(w.partial); err != nil {
		return err
	}
	if err := mustNotExist(w.final); err != nil {
		return err
	}
	if err := os.Rename(w.partial, w.final); err != nil {
		return fmt.Errorf("name the finished bundle: %w", err)
	}
	return syncDir(filepath.Dir(w.final))
}

// file writes one file of the bundle, buffered and synced.
func (w *Writer) file(name string, write func(io.Writer) error) error {
	f, err := os.Create(filepath.Join(w.partial, name))
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	buf := bufio.NewWriterSize(f, 64<<10)
	if err := errors.Join(write(buf), buf.Flush()); err != nil {
		f.Close()
		return fmt.Errorf("write %s: %w", name, err)
	}
	return closeSynced(f)
}

func closeSynced(f *os.File) error {
	return wrap(errors.Join(f.Sync(), f.Close()), filepath.Base(f.Name()))
}

// syncDir makes a directory's entries durable, where the system can.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("open the bundle's directory: %w", err)
	}
	defer d.Close()
	// Some systems and file systems can't sync a directory; the rename stands.
	_ = d.Sync()
	return nil
}

// wrap names the file that could not be written.
func wrap(err error, file string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("write %s: %w", file, err)
}

// Encode returns the bytes of result.json: indented, with a final newline.
func Encode(r *Result) ([]byte, error) {
	r.normalise()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(r); err != nil {
		return nil, fmt.Errorf("encode %s: %w", ResultFile, err)
	}
	return b.Bytes(), nil
}

// requestLog compresses request lines into a file. It is safe for concurrent
// use; a line is one Write.
type requestLog struct {
	mu  sync.Mutex
	f   *os.File
	z   *zstd.Encoder
	err error
}

func newRequestLog(path string) (*requestLog, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("start the request log: %w", err)
	}
	z, err := zstd.NewWriter(f, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20))
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("start the request log: %w", err)
	}
	return &requestLog{f: f, z: z}, nil
}

// Write compresses p. After the first error nothing more is written.
func (l *requestLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return 0, l.err
	}
	n, err := l.z.Write(p)
	l.err = wrap(err, RequestsFile)
	return n, l.err
}

// Flush makes all lines so far readable.
func (l *requestLog) Flush() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = wrap(l.z.Flush(), RequestsFile)
	}
	return l.err
}

// Close ends the compressed stream and syncs the file.
func (l *requestLog) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := wrap(l.z.Close(), RequestsFile)
	if l.err == nil {
		l.err = err
	}
	return errors.Join(l.err, closeSynced(l.f))
}

// abandon closes the file without ending the stream.
func (l *requestLog) abandon() {
	l.z.Reset(nil)
	l.f.Close()
}

// hashFile returns size and SHA-256 of a file.
func hashFile(path string) (size int64, sum string, err error) {
	f, err := openPart(path)
	if err != nil {
		return 0, "", err
	}
	defer f.Close()
	h := sha256.New()
	size, err = io.Copy(h, f)
	return size, hex.EncodeToString(h.Sum(nil)), err
}
