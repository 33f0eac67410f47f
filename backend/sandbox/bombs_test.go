package sandbox

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"helix/backend/testkit"
)

// sourceBombs are short or regular texts that take a compiler disproportionate memory or time. n is
// the approximate size of the text in bytes.
var sourceBombs = []struct {
	name string
	text func(r *rand.Rand, n int) string
}{
	{"doubling enum strings", func(r *rand.Rand, n int) string { return doubling(r, "%s=%s+%s") }},
	{"doubling enum templates", func(r *rand.Rand, n int) string { return doubling(r, "%s=`${%s}x${%s}`") }},
	{"doubling enum members by name", func(r *rand.Rand, n int) string { return doubling(r, `%s=E["%s"]+E.%s`) }},
	{"doubling in a namespace", func(r *rand.Rand, n int) string {
		return "namespace N {export " + doubling(r, "%s=%s+%s") + "}"
	}},
	{"large inlined enum member", func(r *rand.Rand, n int) string {
		return `const enum E{a="` + strings.Repeat("a", n/2) + `"}` + strings.Repeat("f(E.a);", n/14)
	}},
	{"indented statements", func(r *rand.Rand, n int) string {
		d := min(4900, n/4)
		return strings.Repeat("{", d) + strings.Repeat("a;", n/4) + strings.Repeat("}", d)
	}},
	{"hoisted variables", func(r *rand.Rand, n int) string {
		var b strings.Builder
		d := min(4900, n/4)
		b.WriteString(strings.Repeat("{", d))
		for i := 0; b.Len() < n; i++ {
			fmt.Fprintf(&b, "var a%x;", i)
		}
		return b.String() + strings.Repeat("}", d)
	}},
	{"ambiguous type arguments", func(r *rand.Rand, n int) string { return strings.Repeat("a<b,", n/4) + "c" }},
	{"dotted namespaces", func(r *rand.Rand, n int) string {
		return "namespace " + strings.Repeat("A.", min(n, 6000)/2) + "A{export let a}"
	}},
	{"nested using", func(r *rand.Rand, n int) string {
		d := min(n, 8000) / 12
		return strings.Repeat("{using a=b;", d) + strings.Repeat("}", d)
	}},
	{"duplicate declarations", func(r *rand.Rand, n int) string { return strings.Repeat("let a;", n/6) }},
	{"duplicate cases", func(r *rand.Rand, n int) string { return "switch(x){" + strings.Repeat("case 1:", n/7) + "}" }},
	{"constants assigned", func(r *rand.Rand, n int) string { return "const q=1;" + strings.Repeat("q=2;", n/4) }},
	{"legal comments", func(r *rand.Rand, n int) string { return strings.Repeat("/*!a*/", n/6) + "a" }},
	{"decorated members", func(r *rand.Rand, n int) string { return "class B{" + strings.Repeat("@c d;", n/5) + "}" }},
	{"decorators", func(r *rand.Rand, n int) string { return strings.Repeat("@a ", min(n/3, 4000)) + "class B{}" }},
	{"added templates", func(r *rand.Rand, n int) string { return "x=" + strings.Repeat("`${a}`+", n/7) + "1" }},
	{"added strings", func(r *rand.Rand, n int) string { return "x=" + strings.Repeat("'a'+", n/4) + "1" }},
	{"nested JSX", func(r *rand.Rand, n int) string {
		return "x=" + strings.Repeat("<a>", n/7) + strings.Repeat("</a>", n/7)
	}},
	{"nested type arguments", func(r *rand.Rand, n int) string {
		return "type A=" + strings.Repeat("B<", n/4) + "a" + strings.Repeat(" >", n/4)
	}},
	{"constant assertions", func(r *rand.Rand, n int) string { return "x=[" + strings.Repeat("1 as const,", n/11) + "]" }},
	{"large pattern", func(r *rand.Rand, n int) string { return "x=/" + strings.Repeat("(?<a>a)|", n/8) + "a/" }},
	{"empty elements", func(r *rand.Rand, n int) string { return "x=[" + strings.Repeat(",", n) + "]" }},
	{"private fields", func(r *rand.Rand, n int) string {
		var b strings.Builder
		for i := 0; b.Len() < n; i++ {
			fmt.Fprintf(&b, "#a%d;", i)
		}
		return "class A{" + b.String() + "}"
	}},
	{"nested conditions and arrows", func(r *rand.Rand, n int) string { return strings.Repeat("a?(b):c=>d:", n/11) + "e" }},
}

// doubling returns an enum whose members are each twice as long as the previous one. The arguments
// of the format of a member are its name and twice that of the previous one.
func doubling(r *rand.Rand, member string) string {
	text := `enum E{a="` + strings.Repeat("a", 1+r.IntN(60)) + `"`
	last := "a"
	for i := range 30 + r.IntN(30) {
		name := fmt.Sprintf("a%d", i)
		text += "," + fmt.Sprintf(member, name, last, last)
		last = name
	}
	return text + "}"
}

const bombsEnv = "HELIX_TEST_BOMBS"

// TestSourceBombs compiles generated sources in a separate process: each is compiled or rejected,
// and neither that process nor its compiler child exceeds its memory limit. After each, an ordinary
// source that needs the child still compiles.
func TestSourceBombs(t *testing.T) {
	t.Parallel()
	testkit.SkipRaced(t, "one goroutine, and slow under it")
	count := 50
	if long {
		count = 500
	}
	if raceEnabled {
		t.Skip("the race detector multiplies memory")
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestCompileBombs$", "-test.v")
	cmd.Env = append(os.Environ(), bombsEnv+"="+strconv.Itoa(count), cacheVariable+"="+sharedCache)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%.4000s", err, out)
	}
	if !strings.Contains(string(out), fmt.Sprintf("%d bombs", count)) {
		t.Fatalf("the bombs were not compiled:\n%.2000s", out)
	}
	t.Logf("%s", out)
}

// TestCompileBombs is the other process of TestSourceBombs.
func TestCompileBombs(t *testing.T) {
	count, _ := strconv.Atoi(os.Getenv(bombsEnv))
	if count == 0 {
		t.Skip("it runs inside of TestSourceBombs")
	}
	e, err := Open(t.Context(), Options{WorkerCommand: childCommand, Idle: 1, Workers: 1, CacheDir: sharedCache})
	if err != nil {
		t.Fatal(err)
	}
	e.compilers.limit = 300 * time.Millisecond // of CPU time: enough for every source that is not a bomb
	refused := 0
	for i := range count {
		r := rand.New(rand.NewPCG(uint64(i), 7))
		b := sourceBombs[i%len(sourceBombs)]
		n := 1 << (9 + r.IntN(10)) // 512 bytes to 256 KiB
		s := Source{Text: b.text(r, n), Language: TypeScript}
		if r.IntN(4) == 0 {
			s.Language = JavaScript
		}
		_, err := e.CompileJS(context.Background(), s)
		var own *Error
		if err != nil {
			refused++
			if !errors.As(err, &own) || own.Class != ClassCompile {
				t.Errorf("%s, %d bytes: %v", b.name, n, err)
			}
		}
		ordinary := fmt.Sprintf("enum E{A='a',B=A+'%d'} export default () => E.B", i)
		if _, err := e.CompileJS(context.Background(), Source{Text: ordinary, Language: TypeScript}); err != nil {
			t.Fatalf("after %s: %v", b.name, err)
		}
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	own, child := peakMemory(t)
	t.Logf("%d bombs, %d refused; peak memory %d MiB, of a child %d MiB", count, refused, own>>20, child>>20)
	if own > 512<<20 || child > 512<<20 {
		t.Errorf("peak memory %d MiB, of a child %d MiB", own>>20, child>>20)
	}
}
