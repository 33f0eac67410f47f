//go:build containers

package backend

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"helix/backend/agent"
	"helix/backend/container/containertest"
	"helix/backend/coretools"
	"helix/backend/permission"
	"helix/backend/providers"
	"helix/backend/testkit"
)

// podman starts a Podman of its own and returns its socket.
func podman(t *testing.T) string {
	t.Helper()
	e, err := containertest.Start("podman")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Stop)
	return e.Socket
}

// A chat runs commands in a real container, each after its answer. They see the shared and temporary folders, and
// neither the vault nor anything else of this computer.
func TestChatShellInAContainer(t *testing.T) {
	o := testOptions(t.TempDir())
	o.Flags["container.host"] = "unix://" + podman(t)
	o.Flags["container.shell_image"] = "localhost/busybox"
	const look = `cat notes.txt > copy.txt; echo again > /tmp/workspace/again.txt; ls -a / /vault 2>&1; id -u; cat /proc/net/dev | wc -l`
	c := newChatter(t, o, command(look), command("cat copy.txt"), command("sleep 1000"), providers.ScriptedReply{Text: "Done."})
	testkit.Eventually(t, "the engine", func() bool { return c.b.engine.Recheck(t.Context()).Engine != nil }, func(ok bool) bool { return ok })
	box := t.TempDir()
	if err := containertest.Busybox(box); err != nil {
		t.Fatal(err)
	}
	if _, err := c.b.engine.ImportImage(t.Context(), box, "busybox"); err != nil {
		t.Fatal(err)
	}
	var at coretools.Status
	c.call("workspace.status", nil, &at)
	for _, name := range []string{"shared/notes.txt", "vault/secret.txt"} {
		if err := os.WriteFile(filepath.Join(at.Root, name), []byte("The boat is red."), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := c.create(agent.CreateParams{})
	turn := c.say(s.ID, "Look around.")
	if asked := c.question(turn).Requested; len(asked) != 1 || !strings.HasPrefix(asked[0].Resource, "sh -c 'cat notes.txt > copy.txt; ") {
		t.Fatalf("%+v", asked)
	}
	turn = c.answer(turn, permission.AnswerParams{Decision: "approve", Scope: "once"})
	first := c.results(s.ID)[0]
	t.Log(first.Text)
	if first.Status != "done" || strings.Contains(first.Text, "secret") || strings.Contains(first.Text, "notes.txt") {
		t.Errorf("%+v", first)
	}
	for _, name := range []string{"shared/copy.txt", "tmp/again.txt"} {
		if _, err := os.Stat(filepath.Join(at.Root, name)); err != nil {
			t.Error(err)
		}
	}
	turn = c.answer(turn, permission.AnswerParams{Decision: "approve", Scope: "always"})
	if got := c.results(s.ID)[1]; !strings.Contains(got.Text, "The boat is red.") {
		t.Errorf("%+v", got)
	}
	c.approve(turn.Approvals[0], "once") // sleep
	testkit.Eventually(t, "the command", func() bool {
		out, _ := exec.Command("pgrep", "-f", "^sleep 1000$").Output()
		return len(out) > 0
	}, func(ok bool) bool { return ok })
	begun := time.Now()
	c.call("chat.cancel", agent.TurnParams{SessionID: s.ID}, nil)
	if turn = c.until(turn.TurnID); turn.State != agent.Canceled {
		t.Fatalf("%+v", turn)
	}
	t.Logf("canceled after %s", time.Since(begun))
}
