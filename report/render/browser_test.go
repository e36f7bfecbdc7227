package render_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headway-bench/headway/report/bundle"
	"github.com/headway-bench/headway/report/bundle/bundletest"
	"github.com/headway-bench/headway/report/render"
)

// written makes a bundle with its pages and count requests.
func written(t testing.TB, r *bundle.Result, count int) *bundle.Bundle {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "b")
	w, err := bundle.Create(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := bundletest.Requests(w.Requests(), r, count); err != nil {
		t.Fatal(err)
	}
	if err := w.Finish(r, render.Pages()...); err != nil {
		t.Fatal(err)
	}
	b, err := bundle.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// open loads a page in headless Chromium and returns the document after its
// scripts ran, and what the console said.
func open(t *testing.T, page string) (dom, console string) {
	t.Helper()
	browser := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			browser = path
			break
		}
	}
	if browser == "" {
		t.Skip("no Chromium in PATH")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--user-data-dir="+t.TempDir(), "--window-size=1280,1800",
		"--enable-logging=stderr", "--virtual-time-budget=5000", "--dump-dom", "file://"+page)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", browser, err, stderr.String())
	}
	for line := range strings.Lines(stderr.String()) {
		if strings.Contains(line, ":CONSOLE") {
			console += line
		}
	}
	return string(out), console
}

var drawnPoints = regexp.MustCompile(`<figure[^>]*id="(chart-[a-z0-9-]+)"[^>]*data-points="(\d+)"|<figure[^>]*data-points="(\d+)"[^>]*id="(chart-[a-z0-9-]+)"`)

// drawn maps the charts of a document to the rung points drawn in them.
func drawn(t *testing.T, dom string) map[string]int {
	t.Helper()
	out := map[string]int{}
	for _, m := range drawnPoints.FindAllStringSubmatch(dom, -1) {
		n, err := strconv.Atoi(m[2] + m[3])
		if err != nil {
			t.Fatal(err)
		}
		out[m[1]+m[4]] = n
	}
	return out
}

func TestPageInBrowser(t *testing.T) {
	r := bundletest.Result()
	b := written(t, r, 4000)
	dom, console := open(t, filepath.Join(b.Dir, bundle.HTMLFile))
	if console != "" {
		t.Errorf("the console says:\n%s", console)
	}
	for _, want := range []string{`data-ready="true"`, `data-resources="0"`} {
		if !strings.Contains(dom, want) {
			t.Errorf("the document lacks %s", want)
		}
	}
	points := drawn(t, dom)
	for chart, perRung := range map[string]int{"chart-throughput": 1, "chart-tradeoff-speed": 1, "chart-client-cpu": 1} {
		if points[chart] != perRung*len(r.Rungs) {
			t.Errorf("%s draws %d points for %d rungs", chart, points[chart], len(r.Rungs))
		}
	}
	for i := range r.Rungs {
		v, _ := r.Rungs[i].OutputTokenThroughputPerS.Float()
		if want := "<td>" + strconv.FormatFloat(v, 'g', 9, 64) + "</td>"; !strings.Contains(dom, want) {
			t.Errorf("the throughput of rung %d, %s, is not in the document", i, want)
		}
	}
	if n := strings.Count(dom, "<canvas"); n != len(points)+3 {
		t.Errorf("%d canvases for %d charts and 3 timelines", n, len(points))
	}
}

func TestHostileTextInBrowser(t *testing.T) {
	r := bundletest.Result()
	evil := `</script><script>document.title="owned"</script><img src=x onerror="document.title='owned'"> | "quoted" 'single' ` + "`tick`" + ` <!--`
	r.Profile.Name = evil
	r.Profile.Model.ID = evil + "\u202e\u05e9\u05dc\u05d5\u05dd" + strings.Repeat("M", 1<<20)
	r.Server.Settings[evil] = evil
	r.Rungs[2].Reasons = append(r.Rungs[2].Reasons, reason(evil))
	r.Warnings = append(r.Warnings, bundle.Warning{Code: "x", Message: "http://192.0.2.1/" + evil})
	b := written(t, r, 100)
	path := filepath.Join(b.Dir, bundle.HTMLFile)
	if info, err := os.Stat(path); err != nil || info.Size() > 1<<20 {
		t.Errorf("the page has %d bytes (%v), a long name is not cut", info.Size(), err)
	}
	dom, console := open(t, path)
	if console != "" {
		t.Errorf("the console says:\n%s", console)
	}
	if strings.Contains(dom, "<title>owned") || strings.Contains(dom, "<img") {
		t.Error("foreign text became a script or an element")
	}
	if !strings.Contains(dom, `&lt;script&gt;document.title="owned"&lt;/script&gt;`) {
		t.Error("the hostile name is not shown as text")
	}
	if got := drawn(t, dom)["chart-throughput"]; got != len(r.Rungs) {
		t.Errorf("%d points drawn, want %d", got, len(r.Rungs))
	}
}

func TestSeveralBundlesInBrowser(t *testing.T) {
	first, second := written(t, bundletest.Result(), 500), written(t, bundletest.Result(), 500)
	first.Path, second.Path = "runs/a", "runs/b"
	path := filepath.Join(t.TempDir(), "two.html")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := render.HTML(f, first, second); err != nil {
		t.Fatal(err)
	}
	f.Close()
	dom, console := open(t, path)
	if console != "" {
		t.Errorf("the console says:\n%s", console)
	}
	if got, want := drawn(t, dom)["chart-throughput"], 2*len(bundletest.Loads); got != want {
		t.Errorf("%d points drawn, want %d", got, want)
	}
	for _, path := range []string{"a", "b"} {
		if !strings.Contains(dom, first.Result.Profile.Name+", "+path) {
			t.Errorf("bundle %s of two of one name is not told apart", path)
		}
	}
}

// TestKeyboardAndThemeInBrowser presses keys and the theme's button by a script
// that is added to the page, its content policy taken out.
func TestKeyboardAndThemeInBrowser(t *testing.T) {
	b := written(t, bundletest.Result(), 500)
	page, err := os.ReadFile(filepath.Join(b.Dir, bundle.HTMLFile))
	if err != nil {
		t.Fatal(err)
	}
	text := regexp.MustCompile(`<meta http-equiv="Content-Security-Policy"[^>]*>`).ReplaceAllString(string(page), "")
	text += `<script>setTimeout(() => {
		const figure = document.getElementById("chart-throughput"), plot = figure.querySelector(".plot");
		plot.focus();
		for (const key of ["ArrowRight", "ArrowRight"]) plot.dispatchEvent(new KeyboardEvent("keydown", { key }));
		document.body.dataset.said = figure.querySelector("output").textContent;
		const pick = document.getElementById("rung");
		pick.value = "0"; pick.dispatchEvent(new Event("change"));
		const before = document.documentElement.dataset.theme;
		document.getElementById("theme").click();
		document.body.dataset.theme = before + " to " + document.documentElement.dataset.theme;
	}, 500);</script>`
	path := filepath.Join(t.TempDir(), "keys.html")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	dom, console := open(t, path)
	if console != "" {
		t.Errorf("the console says:\n%s", console)
	}
	for _, want := range []string{`data-theme="light to dark"`, `load 2: 185 output tok/s at 1.99 requests in flight, mean`} {
		if !strings.Contains(dom, want) {
			t.Errorf("the document lacks %q", want)
		}
	}
	if got := drawn(t, dom)["chart-throughput"]; got != len(bundletest.Loads) {
		t.Errorf("%d points drawn in the dark, want %d", got, len(bundletest.Loads))
	}
}

// TestOpenLoopInBrowser checks the chart that only an open ladder has.
func TestOpenLoopInBrowser(t *testing.T) {
	r := variants()["open"]
	dom, console := open(t, filepath.Join(written(t, r, 100).Dir, bundle.HTMLFile))
	if console != "" {
		t.Errorf("the console says:\n%s", console)
	}
	if got := drawn(t, dom)["chart-rate"]; got != len(r.Rungs) {
		t.Errorf("%d points of the rate drawn, want %d", got, len(r.Rungs))
	}
}
