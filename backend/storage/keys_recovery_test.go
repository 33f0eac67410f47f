package storage

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"helix/backend/fault"
)

func TestRecoveryCode(t *testing.T) {
	t.Parallel()
	root := bytes.Repeat([]byte{0x0a, 0xb1}, 16)
	code := RecoveryCode(root)
	if g := strings.Split(code, "-"); len(g) != 24 || slices.ContainsFunc(g, func(s string) bool { return len(s) != 4 }) {
		t.Fatalf("code %s", code)
	}
	groups := strings.Split(code, "-")
	for _, typed := range []string{
		code, strings.ToLower(code), strings.ReplaceAll(code, "-", " "), strings.ReplaceAll(code, "-", ""), "  " + strings.Join(groups[:12], "-") + "\r\n" + strings.Join(groups[12:], "-") + "\n",
		strings.ReplaceAll(strings.ReplaceAll(code, "0", "O"), "1", "l"),
	} {
		if got, err := parseRecoveryCode(typed); err != nil || !bytes.Equal(got, root) {
			t.Errorf("%q: %v", typed, err)
		}
	}
	swapped := slices.Clone(groups)
	swapped[2], swapped[5] = swapped[5], swapped[2]
	slip := []byte(code)
	slip[5*7] = 'F' ^ slip[5*7]&1
	if slip[5*7] == code[5*7] {
		slip[5*7] = '2'
	}
	for name, typed := range map[string]string{"swapped": strings.Join(swapped, "-"), "slip in group 8": string(slip), "short": code[:60], "long": code + "-0000", "letters": "hello world", "empty": ""} {
		got, err := parseRecoveryCode(typed)
		if got != nil || !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %x, %v", name, got, err)
		}
		if name == "slip in group 8" && !strings.Contains(err.Error(), "7 to 9") {
			t.Errorf("the place is not named: %v", err)
		}
	}
}

func FuzzRecoveryCode(f *testing.F) {
	f.Add("0A0B-1C1D", []byte("0123456789abcdef0123456789abcdef"))
	f.Fuzz(func(t *testing.T, text string, root []byte) {
		if got, err := parseRecoveryCode(text); err == nil {
			if again, err := parseRecoveryCode(RecoveryCode(got)); err != nil || !bytes.Equal(again, got) {
				t.Errorf("%q does not survive", text)
			}
		} else if got != nil {
			t.Error("a wrong code gave bytes")
		}
		if len(root) == RootKeySize {
			if got, err := parseRecoveryCode(RecoveryCode(root)); err != nil || !bytes.Equal(got, root) {
				t.Errorf("%x: %v", root, err)
			}
		}
	})
}
