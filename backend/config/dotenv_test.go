package config

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestDotenv(t *testing.T) {
	t.Parallel()
	text := "\xef\xbb\xbfA=1\r\n" +
		"  # a comment\r\n" +
		"export B = two words \r\n" +
		"C='single # $X \\n'\n" +
		"D=\"double \\\"q\\\" \\n \\$X # no comment\" # comment\r" +
		"E=bare#kept # comment\n" +
		"F=\nG=''\nH=#\n" +
		"exportI=x\nexport\tJ=tab\n" +
		"K=$(rm -rf /) `id` ${A}\n" +
		"L=a=b=c\n" +
		"A=again"
	lines, problems := parseDotenv([]byte(text))
	want := []Line{
		{"A", "1", 1}, {"B", "two words", 3}, {"C", `single # $X \n`, 4}, {"D", "double \"q\" \n $X # no comment", 5}, {"E", "bare#kept", 6},
		{"F", "", 7}, {"G", "", 8}, {"H", "", 9}, {"exportI", "x", 10}, {"J", "tab", 11}, {"K", "$(rm -rf /) `id` ${A}", 12}, {"L", "a=b=c", 13}, {"A", "again", 14},
	}
	if !slices.Equal(lines, want) || len(problems) != 0 {
		t.Errorf("lines\n%+v\nwant\n%+v\nproblems %q", lines, want, problems)
	}
	bad := "no equals\n1X=2\nX Y=3\nQ=\"open\nR='open\nS=\"a\" b\nT=\xff\n=v\nOK=1\nU=\"x\\"
	lines, problems = parseDotenv([]byte(bad))
	if len(lines) != 1 || lines[0].Name != "OK" || len(problems) != 9 {
		t.Errorf("lines %+v, problems %q", lines, problems)
	}
	for i, p := range problems {
		if !strings.HasPrefix(p, "line ") {
			t.Errorf("problem %d does not name its line: %q", i, p)
		}
	}
}

func FuzzDotenv(f *testing.F) {
	for _, s := range []string{"A=1", "export B='x' # c", "C=\"\\n\\", "\xef\xbb\xbfD=\r\nE", "F=a#b #c"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		lines, problems := parseDotenv(text)
		for _, l := range lines {
			if !validName(l.Name) || !utf8.ValidString(l.Value) || strings.ContainsRune(l.Value, 0) || l.No < 1 {
				t.Errorf("line %+v", l)
			}
			if !strings.ContainsAny(l.Value, "'\n\r") { // a value that a person would write back is read the same
				again, p := parseDotenv([]byte(l.Name + "='" + l.Value + "'"))
				if len(again) != 1 || again[0].Value != l.Value || len(p) != 0 {
					t.Errorf("%+v comes back as %+v, %v", l, again, p)
				}
			}
		}
		if len(lines)+len(problems) > strings.Count(string(text), "\n")+strings.Count(string(text), "\r")+1 {
			t.Error("more answers than lines")
		}
	})
}
