//go:build linux

package mcp

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"helix/backend/fault"
	"helix/backend/testkit"
)

// members returns the processes of a family.
func members(t *testing.T, file string) (out []int) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Fields(string(b)) {
		pid, err := strconv.Atoi(line)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, pid)
	}
	return out
}

func TestEndOfAServerEndsChildrenThatIgnoreTerm(t *testing.T) {
	t.Parallel()
	for way, end := range map[string]func(e *env) error{
		"stop": func(e *env) error { _, err := e.s.Stop(e.ctx, NameParams{"family"}); return err },
		"quit": func(e *env) error { return e.s.Close() },
		"idle": func(e *env) error { e.now = time.Now().Add(time.Hour); e.s.stopIdle(); return nil },
	} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			e := setup(t)
			file := filepath.Join(e.dir, "family")
			e.add("family", "family:"+file)
			if _, err := e.s.Start(e.ctx, NameParams{"family"}); err != nil {
				t.Fatal(err)
			}
			pids := members(t, file)
			if len(pids) != 3 {
				t.Fatalf("%d processes", len(pids))
			}
			if err := end(e); err != nil {
				t.Fatal(err)
			}
			for _, pid := range pids {
				if alive(pid) {
					t.Errorf("process %d still runs", pid)
				}
			}
			if b, err := os.ReadFile(filepath.Join(e.dir, "mcp-processes.json")); err != nil || strings.TrimSpace(string(b)) != "[]" {
				t.Errorf("the record: %s, %v", b, err)
			}
		})
	}
}

func TestNextStartEndsWhatACrashLeft(t *testing.T) {
	t.Parallel()
	e := setup(t)
	file := filepath.Join(e.dir, "family")
	log := &serverLog{}
	left := &leftovers{file: filepath.Join(e.dir, "left.json"), log: discard}
	s := Server{Name: "family", Command: os.Args[0], Env: map[string]string{asServer: "family:" + file}}
	p, err := startProcess(&s, os.Args[0], []string{asServer + "=family:" + file}, log, left)
	if err != nil {
		t.Fatal(err)
	}
	r, w := p.pipes(nil)
	if _, err := w.Write([]byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Read(make([]byte, 1)); err != nil { // it has started its children
		t.Fatal(err)
	}
	pids := members(t, file)
	if err := p.cmd.Process.Kill(); err != nil { // as a crash of Helix does
		t.Fatal(err)
	}
	record, err := os.ReadFile(left.file)
	if err != nil {
		t.Fatal(err)
	}
	<-p.exited // here the group is killed; a crashed Helix would not have done that
	for _, pid := range pids {
		if alive(pid) {
			t.Errorf("process %d still runs", pid)
		}
	}
	p.stop()

	// A foreign process that now has a recorded id is not touched.
	foreign := exec.Command(os.Args[0])
	foreign.Env = []string{asServer + "=child"}
	foreign.SysProcAttr = attributes()
	if err := foreign.Start(); err != nil {
		t.Fatal(err)
	}
	var all []started
	if err := json.Unmarshal(record, &all); err != nil || len(all) != 1 {
		t.Fatalf("%s, %v", record, err)
	}
	all[0].PID = foreign.Process.Pid
	again := &leftovers{file: filepath.Join(e.dir, "again.json"), log: discard}
	write := func() {
		b, err := json.Marshal(all)
		if err == nil {
			err = os.WriteFile(again.file, b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	write()
	if n := again.end(); n != 0 || !alive(foreign.Process.Pid) {
		t.Errorf("a process that started at another time was ended")
	}
	all[0].Start, _ = startOf(foreign.Process.Pid)
	write()
	if n := again.end(); n != 1 {
		t.Errorf("the recorded process was not ended")
	}
	_ = foreign.Wait() // it was killed
}

// crashing makes this program a Helix that has started a server and waits to be killed. Its value is
// the server's file for the ids of its processes.
const crashing = "TEST_MCP_CRASHING"

func TestKilledHelixLeavesNoServer(t *testing.T) {
	if file := os.Getenv(crashing); file != "" {
		e := setup(t, func(o *Options) { o.StateDir = filepath.Dir(file) })
		e.add("family", "family:"+file)
		if _, err := e.s.Start(e.ctx, NameParams{"family"}); err != nil {
			t.Fatal(err)
		}
		fmt.Println("started")
		block()
	}
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "family")
	helix := exec.Command(os.Args[0], "-test.run=^TestKilledHelixLeavesNoServer$")
	helix.Env = append(os.Environ(), crashing+"="+file, "TMPDIR="+dir)
	out, err := helix.StdoutPipe()
	if err == nil {
		err = helix.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if line != "started\n" {
		t.Errorf("%q, %v", line, err)
	}
	pids := members(t, file)
	if len(pids) != 3 || !alive(pids[0]) {
		t.Fatalf("processes %d", pids)
	}
	if err := helix.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = helix.Wait() // it was killed
	testkit.Eventually(t, "the end of the server with Helix", func() bool { return alive(pids[0]) }, func(runs bool) bool { return !runs })
	left := &leftovers{file: filepath.Join(dir, "mcp-processes.json"), log: discard}
	if n := left.end(); n != 1 { // as the next start does
		t.Errorf("ended %d groups", n)
	}
	testkit.Eventually(t, "the end of what the server started", func() (still []int) {
		for _, pid := range pids {
			if alive(pid) {
				still = append(still, pid)
			}
		}
		return still
	}, func(still []int) bool { return len(still) == 0 })
	if n := left.end(); n != 0 {
		t.Errorf("ended %d groups again", n)
	}
}

func TestStartsAndStopsLeaveNothing(t *testing.T) {
	if !testkit.Alone(t) {
		return
	}
	e := setup(t)
	e.add("files", "plain")
	cycle := func() {
		if _, err := e.s.Start(e.ctx, NameParams{"files"}); err != nil {
			t.Fatal(err)
		}
		if _, err := e.s.Stop(e.ctx, NameParams{"files"}); err != nil {
			t.Fatal(err)
		}
	}
	n := 20
	if os.Getenv("HELIX_LONG") != "" {
		n = 1000
	}
	for range 10 { // what is opened once, such as the connections of the database
		cycle()
	}
	files, goroutines := openFiles(t), runtime.NumGoroutine()
	for range n {
		cycle()
	}
	const few = 6 // the database may open more connections, whose number doesn't grow with the cycles
	if now := openFiles(t); now > files+few {
		t.Errorf("%d files are open, %d before", now, files)
	}
	testkit.Eventually(t, "the end of the goroutines", runtime.NumGoroutine, func(now int) bool { return now <= goroutines+few })
	threads, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil || len(threads) == 0 {
		t.Fatal(threads, err)
	}
	for _, thread := range threads {
		if children, err := os.ReadFile(thread); err == nil && len(children) > 0 { // a thread may have ended
			t.Errorf("children are left: %s", children)
		}
	}
	if b, err := os.ReadFile(filepath.Join(e.dir, "mcp-processes.json")); err != nil || strings.TrimSpace(string(b)) != "[]" {
		t.Errorf("the record: %s, %v", b, err)
	}
} // TestMain looks for goroutines that are left

func TestManyTogglesLeaveTheLastState(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.add("files", "plain")
	var all sync.WaitGroup
	for i := range 100 { // starts and stops cross each other
		all.Go(func() {
			if i%2 == 0 {
				_, _ = e.s.Start(e.ctx, NameParams{"files"}) // a stop may cancel it
			} else if _, err := e.s.Stop(e.ctx, NameParams{"files"}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if _, err := e.s.Stop(e.ctx, NameParams{"files"}); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(e.dir, "mcp-processes.json")); err != nil && !os.IsNotExist(err) || err == nil && strings.TrimSpace(string(b)) != "[]" {
		t.Errorf("processes are left: %s, %v", b, err)
	}
	if _, err := e.s.Start(e.ctx, NameParams{"files"}); err != nil {
		t.Errorf("it no longer starts: %v", err)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

func TestProgramsOnWindows(t *testing.T) {
	t.Parallel()
	there := map[string]bool{`C:\Program Files\nodejs\npx.cmd`: true, `C:\uv\uvx.exe`: true, `C:\x\tool.bat`: true}
	f := &finder{windows: true, path: []string{`.`, `C:\Program Files\nodejs`, `C:\uv`}, pathExt: []string{".com", ".exe", ".bat", ".cmd"}, exists: func(p string) bool { return there[p] }}
	for command, want := range map[string]string{"npx": `C:\Program Files\nodejs\npx.cmd`, "uvx": `C:\uv\uvx.exe`, `C:\uv\uvx.exe`: `C:\uv\uvx.exe`, `C:\x\tool`: `C:\x\tool.bat`, "gone": "", `sub\npx`: "", `C:\uv\gone.exe`: ""} {
		got, err := f.find(command)
		if got != want || (err != nil) != (want == "") {
			t.Errorf("%s: %q, %v", command, got, err)
		}
	}
	line, err := batchLine([]string{`C:\Program Files\nodejs\npx.cmd`, "-y", "a b & del *", `C:\dir\`})
	if err != nil || line != `"C:\Program Files\nodejs\npx.cmd" "-y" "a b & del *" "C:\dir\\"` {
		t.Errorf("%s, %v", line, err)
	}
	for _, arg := range []string{"%PATH%", `a" & calc`, "a\nb"} {
		if _, err := batchLine([]string{"npx.cmd", arg}); !fault.Is(err, fault.Invalid) {
			t.Errorf("%q: %v", arg, err)
		}
	}
}
