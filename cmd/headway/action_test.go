package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// actionSteps are the shell scripts of action.yml by the name of their step.
func actionSteps(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "action.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var action struct {
		Runs struct {
			Steps []struct{ Name, Shell, Run string }
		}
	}
	if err := yaml.Unmarshal(text, &action); err != nil {
		t.Fatal(err)
	}
	steps := map[string]string{}
	for _, s := range action.Runs.Steps {
		if s.Shell != "bash" {
			t.Errorf("step %s runs in %q", s.Name, s.Shell)
		}
		steps[s.Name] = s.Run
	}
	return steps
}

// Programs that stand in for the real ones: each notes how it was called. curl
// writes an archive that has headway in it, and the sum of it.
const (
	stubCurl = `echo "curl $*" >>"$CALLS"
while [ $# -gt 1 ]; do
  case $1 in -o) out=$2 ;; esac
  shift
done
case $1 in
  *SHA256SUMS) sha256sum headway_*.gz | sed "s/^..../${BAD_SUM:-&}/" >"$out" ;;
  *) if [ "$STATUS" = 200 ]; then echo stub >headway; tar czf "$out" headway; rm headway; fi
     printf %s "$STATUS" ;;
esac
`
	stubGo      = `echo "go $* GOBIN=$GOBIN" >>"$CALLS"` + "\n"
	stubUname   = `case $1 in -s) echo Linux ;; -m) echo "${MACHINE:-x86_64}" ;; esac` + "\n"
	stubHeadway = `echo headway >>"$CALLS"
for a in "$@"; do echo "  $a" >>"$CALLS"; done
echo "# table"
exit "${EXIT:-0}"
`
)

// step runs the script of one step beside stubs, with the variables given, and
// returns the calls of the stubs, what was written to a file of GitHub, and the
// exit code.
func step(t *testing.T, name, file string, stubs, vars map[string]string) (calls, wrote, said string, code int) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the stubs are scripts of a Unix shell")
	}
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash in PATH")
	}
	dir := t.TempDir()
	bin := filepath.Join(dir, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, tool := range []string{"mkdir", "grep", "sha256sum", "tar", "tee", "sed", "rm", "gzip"} {
		path, err := exec.LookPath(tool)
		if err != nil {
			t.Skipf("no %s in PATH", tool)
		}
		if err := os.Symlink(path, filepath.Join(bin, tool)); err != nil {
			t.Fatal(err)
		}
	}
	for tool, script := range stubs {
		if err := os.WriteFile(filepath.Join(bin, tool), []byte("#!"+bash+"\n"+script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), bash, "-c", actionSteps(t)[name])
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + bin, "CALLS=" + filepath.Join(dir, "calls"), "RUNNER_TEMP=" + dir, file + "=" + filepath.Join(dir, "wrote")}
	for k, v := range vars {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	out, _ := cmd.CombinedOutput()
	read := func(name string) string {
		text, _ := os.ReadFile(filepath.Join(dir, name))
		return strings.ReplaceAll(string(text), dir, "TEMP")
	}
	return read("calls"), read("wrote"), string(out), cmd.ProcessState.ExitCode()
}

func TestActionInstalls(t *testing.T) {
	const release = "https://github.com/headway-bench/headway/releases/download/v0.1.0/headway_0.1.0_"
	all := map[string]string{"curl": stubCurl, "go": stubGo, "uname": stubUname}
	withoutGo := map[string]string{"curl": stubCurl, "uname": stubUname}
	for _, tt := range []struct {
		name     string
		stubs    map[string]string
		vars     map[string]string
		code     int
		calls    []string
		not      string
		wrote    string
		complain string
	}{
		{"a release", withoutGo, map[string]string{"VERSION": "0.1.0", "STATUS": "200"}, 0,
			[]string{release + "linux_amd64.tar.gz", release + "SHA256SUMS"}, "go install", "TEMP/headway-0.1.0\n", ""},
		{"a sum that differs", all, map[string]string{"VERSION": "0.1.0", "STATUS": "200", "BAD_SUM": "-bad"}, 1, nil, "go install", "", ""},
		{"no such release", all, map[string]string{"VERSION": "0.1.0", "STATUS": "404"}, 0,
			[]string{"go install github.com/headway-bench/headway/cmd/headway@v0.1.0 GOBIN=TEMP/headway-0.1.0"}, "SHA256SUMS", "TEMP/headway-0.1.0\n", ""},
		{"no such release and no Go", withoutGo, map[string]string{"VERSION": "0.1.0", "STATUS": "404"}, 1, nil, "go install", "",
			"release 0.1.0 has no headway_0.1.0_linux_amd64.tar.gz; to build it from source, add actions/setup-go"},
		{"a machine without a binary", all, map[string]string{"VERSION": "0.1.0", "STATUS": "404", "MACHINE": "riscv64"}, 0,
			[]string{release + "linux_riscv64.tar.gz", "go install"}, "SHA256SUMS", "TEMP/headway-0.1.0\n", ""},
		{"a server that fails", all, map[string]string{"VERSION": "0.1.0", "STATUS": "503"}, 1, nil, "go install", "", "answers 503"},
		{"a branch", all, map[string]string{"VERSION": "main"}, 0, []string{"headway@main GOBIN=TEMP/headway-main"}, "curl", "TEMP/headway-main\n", ""},
		{"a branch with a slash", all, map[string]string{"VERSION": "fix/one"}, 0, []string{"headway@fix/one GOBIN=TEMP/headway-fix-one"}, "curl", "TEMP/headway-fix-one\n", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			calls, wrote, said, code := step(t, "Install headway", "GITHUB_PATH", tt.stubs, tt.vars)
			if (code == 0) != (tt.code == 0) || wrote != tt.wrote {
				t.Errorf("exit %d, wrote %q to GITHUB_PATH; want %d, %q\n%s", code, wrote, tt.code, tt.wrote, said)
			}
			for _, want := range tt.calls {
				if !strings.Contains(calls, want) {
					t.Errorf("no call of %q in:\n%s", want, calls)
				}
			}
			if strings.Contains(calls, tt.not) {
				t.Errorf("%q was called:\n%s", tt.not, calls)
			}
			if !strings.Contains(said, tt.complain) {
				t.Errorf("said %q, want %q", said, tt.complain)
			}
		})
	}
}

func TestActionMeasuresAndGates(t *testing.T) {
	stubs := map[string]string{"headway": stubHeadway}
	for _, tt := range []struct {
		name, step string
		vars       map[string]string
		args       []string
		code       int
	}{
		{"arguments on several lines, a limit with blanks", "Measure",
			map[string]string{"RUN": "chat --target http://localhost:8000\n  --concurrency 1,2", "SLO": "ttft_p95=500ms, error_rate=1%", "OUT": "a b"},
			[]string{"run", "chat", "--target", "http://localhost:8000", "--concurrency", "1,2", "--slo", "ttft_p95=500ms, error_rate=1%", "--out", "a b", "--no-progress", "--format", "markdown"}, 0},
		{"no pattern is expanded", "Measure", map[string]string{"RUN": "* $HOME", "SLO": "", "OUT": "o"},
			[]string{"run", "*", "$HOME", "--out", "o", "--no-progress", "--format", "markdown"}, 0},
		{"nothing to run", "Measure", map[string]string{"RUN": "", "SLO": "", "OUT": "o", "EXIT": "2"},
			[]string{"run", "--out", "o", "--no-progress", "--format", "markdown"}, 2},
		{"the verdict is the exit code", "Gate",
			map[string]string{"SLO": "ttft_p95=500ms", "AT": "concurrency=8", "BASELINE": "old", "MAX_REGRESSION": "5%", "INCONCLUSIVE": "fail", "OUT": "o", "EXIT": "1"},
			[]string{"gate", "o", "--format", "markdown", "--slo", "ttft_p95=500ms", "--at", "concurrency=8", "--baseline", "old", "--max-regression", "5%", "--inconclusive", "fail"}, 1},
		{"the profile's limits", "Gate",
			map[string]string{"SLO": "", "AT": "", "BASELINE": "", "MAX_REGRESSION": "5%", "INCONCLUSIVE": "", "OUT": "o", "EXIT": "4"},
			[]string{"gate", "o", "--format", "markdown"}, 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			calls, wrote, said, code := step(t, tt.step, "GITHUB_STEP_SUMMARY", stubs, tt.vars)
			if want := "headway\n  " + strings.Join(tt.args, "\n  ") + "\n"; calls != want || code != tt.code || wrote != "# table\n" {
				t.Errorf("exit %d, summary %q, called\n%swant %d,\n%s%s", code, wrote, calls, tt.code, want, said)
			}
		})
	}
}
