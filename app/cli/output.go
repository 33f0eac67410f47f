package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/mattn/go-isatty"

	"helix/backend/fault"
)

// printJSON prints v, indented on a terminal and on one line otherwise.
func (c *command) printJSON(v any) error {
	raw, ok := v.(json.RawMessage)
	if !ok {
		b, err := json.Marshal(v)
		if err != nil {
			return err
		}
		raw = b
	}
	if isTerminal(c.env.Stdout) {
		var buf bytes.Buffer
		if err := json.Indent(&buf, raw, "", "  "); err == nil {
			raw = buf.Bytes()
		}
	}
	_, err := fmt.Fprintln(c.env.Stdout, string(raw))
	return err
}

// table prints rows below a header; untrusted text is made safe for a terminal.
func (c *command) table(header []string, rows [][]string) {
	w := tabwriter.NewWriter(c.env.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, strings.Join(header, "\t"))
	for _, r := range rows {
		for i := range r {
			r[i] = plain(r[i])
		}
		fmt.Fprintln(w, strings.Join(r, "\t"))
	}
	_ = w.Flush() // standard output is closed
}

// list prints a table with a row for each item. Without items it prints none as a message, unless
// that is empty.
func list[T any](c *command, items []T, none string, header []string, row func(T) []string) {
	if len(items) == 0 && none != "" {
		c.say("%s", none)
		return
	}
	rows := make([][]string, len(items))
	for i, x := range items {
		rows[i] = row(x)
	}
	c.table(header, rows)
}

// fields prints aligned "name: value" lines in the given order, without empty values.
func (c *command) fields(kv ...string) {
	w := tabwriter.NewWriter(c.env.Stdout, 0, 4, 2, ' ', 0)
	for i := 0; i+1 < len(kv); i += 2 {
		if kv[i+1] != "" {
			fmt.Fprintf(w, "%s:\t%s\n", kv[i], plain(kv[i+1]))
		}
	}
	_ = w.Flush() // standard output is closed
}

// plain replaces control characters, which could move a terminal's cursor, and line ends.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case unicode.IsControl(r), unicode.In(r, unicode.Bidi_Control):
			return '�'
		}
		return r
	}, s)
}

func cut(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return string(r[:n-1]) + "…"
}

func size(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	f, e := float64(n)/unit, 0
	for f >= unit && e < 3 {
		f, e = f/unit, e+1
	}
	return fmt.Sprintf("%.1f %ciB", f, "KMGT"[e])
}

func ago(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	d := time.Since(t)
	switch {
	case d < 0:
		return "in " + span(-d)
	case d < time.Minute:
		return "just now"
	}
	return span(d) + " ago"
}

func span(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}

func isTerminal(v any) bool {
	f, ok := v.(*os.File)
	return ok && (isatty.IsTerminal(f.Fd()) || isatty.IsCygwinTerminal(f.Fd())) // not every character device is a terminal: /dev/null is not
}

const maxInput = 16 << 20

// input reads an argument that is JSON text, "-" for standard input, or "@file".
func (c *command) input(arg string) (json.RawMessage, error) {
	var b []byte
	var err error
	switch {
	case arg == "":
		return nil, nil
	case arg == "-":
		b, err = io.ReadAll(io.LimitReader(c.env.Stdin, maxInput))
	case strings.HasPrefix(arg, "@"):
		b, err = os.ReadFile(arg[1:])
	default:
		b = []byte(arg)
	}
	if err != nil {
		return nil, fault.Invalidf("Couldn't read %s.", arg).WithCause(err)
	}
	if !json.Valid(b) {
		return nil, fault.Invalidf("%s isn't valid JSON.", what(arg))
	}
	return b, nil
}

func what(arg string) string {
	switch {
	case arg == "-":
		return "Standard input"
	case strings.HasPrefix(arg, "@"):
		return arg[1:]
	}
	return "The argument"
}

// confirm asks for confirmation on a terminal; otherwise it refuses, so that a script must pass
// --yes.
func (c *command) confirm(yes bool, question string) error {
	if yes {
		return nil
	}
	if !isTerminal(c.env.Stdin) {
		return fault.Deniedf("%s Use --yes to confirm.", question)
	}
	fmt.Fprintf(c.env.Stderr, "%s [y/N] ", question)
	var answer string
	if _, err := fmt.Fscanln(c.env.Stdin, &answer); err != nil || !strings.EqualFold(strings.TrimSpace(answer), "y") {
		return fault.New(fault.Canceled, "Nothing was changed.")
	}
	return nil
}
