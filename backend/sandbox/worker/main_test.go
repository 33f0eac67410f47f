package worker

import (
	"fmt"
	"os"
	"testing"
	"time"

	"helix/backend/testkit"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		acts["act-try"] = actTry
		if act := acts[os.Args[1]]; act != nil {
			os.Exit(act())
		}
	}
	code := m.Run()
	if code == 0 {
		if err := testkit.Leaks(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// acts are the functions of this program as a child, by its argument.
var acts = map[string]func() int{
	"act-echo":   actEcho,
	"act-silent": func() int { time.Sleep(time.Hour); return 0 },
}

// actEcho answers each greeting with a log line that repeats its kind, until its input ends.
func actEcho() int {
	in, out := NewReader(os.Stdin, ToChildLimits), NewWriter(os.Stdout, FromChildLimits)
	for {
		f, _, err := in.ReadToChild()
		if err != nil {
			return 3
		}
		if f.Hello == nil {
			continue
		}
		if err := out.Write(FromChild{Log: &Log{Level: "info", TextSize: len(f.Hello.Kind)}}, []byte(f.Hello.Kind)); err != nil {
			return 4
		}
	}
}
