package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"
)

// stopAt cancels a context when a text is written.
type stopAt struct {
	bytes.Buffer
	text string
	stop context.CancelFunc
}

func (s *stopAt) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte(s.text)) {
		s.stop()
	}
	return s.Buffer.Write(b)
}

func TestDecayCommands(t *testing.T) {
	t.Parallel()
	dir := dataFolder(t)
	for _, c := range []struct {
		code int
		args string
	}{
		{0, "decay --once"}, {0, "psychology-decay --once --dry-run"}, {2, "decay --once --schedule *"}, {2, "decay --schedule never"}, {2, "decay forecast --layer 8"}, {2, "decay forecast"},
		{3, "decay forecast 018f3c5e-0000-7000-8000-000000000000"}, {0, "decay forecast --layer 4"}, {3, "decay restore --run 018f3c5e-0000-7000-8000-000000000000"}, {2, "decay restore"}, {0, "psychology show"}, {0, "psychology show 4"}, {2, "psychology export /etc"},
	} {
		if r := helix(t, dir, "", strings.Fields(c.args)...); r.code != c.code {
			t.Errorf("helix %s: exit %d, want %d: %s%s", c.args, r.code, c.code, r.stdout, r.stderr)
		}
	}
	// With a schedule it continues until it is stopped, which is not a failure.
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out, errs := &stopAt{text: "memories and entries", stop: stop}, &bytes.Buffer{}
	if code := Main(ctx, []string{"--data-dir", dir, "decay", "--schedule", "* * * * * *"}, Env{Stdin: strings.NewReader(""), Stdout: out, Stderr: errs, Keyring: noKeyring{}, Worker: worker}); code != 0 || !strings.Contains(errs.String(), "next evaluation at") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
}
