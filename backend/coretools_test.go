package backend

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"helix/backend/callable"
	"helix/backend/callable/callabletest"
	"helix/backend/coretools"
	"helix/backend/fault"
	"helix/backend/permission"
	"helix/backend/skills"
	"helix/backend/storage"
)

// Steps write a file, read it and find it; the person sees the workspace and undoes the change.
func TestStepsWriteAndReadFiles(t *testing.T) {
	t.Parallel()
	c := newChain(t)
	m := c.save("Notes", `[
		{"stepId":"write","toolName":"file.write","toolType":"builtin","parameters":{"path":"/shared/notes/tea.txt","text":"The kettle is blue.\n"}},
		{"stepId":"edit","toolName":"file.edit","toolType":"builtin","parameters":{"path":"/shared/notes/tea.txt","old":"blue","new":"green"},"inputMapping":{"hash":"$.steps.write.output.hash"}},
		{"stepId":"find","toolName":"file.search","toolType":"builtin","parameters":{"query":"kettle"},"outputMapping":"$.hits[0].path"},
		{"stepId":"read","toolName":"file.read","toolType":"builtin","inputMapping":{"path":"$.steps.find.output"},"outputMapping":"$.text"}]`)
	out := c.run(m)
	if string(out.FinalOutput) != `"The kettle is green.\n"` {
		t.Fatalf("%s %+v", out.FinalOutput, out.Error)
	}
	s := c.session(t)
	var st coretools.Status
	if s.call("workspace.status", struct{}{}, &st); st.Root == "" || len(st.Areas) != 3 || st.Areas[0].Files != 1 || st.Areas[0].Bytes != 21 {
		t.Errorf("%+v", st)
	}
	made, err := c.Callables.Call(c.ctx, callable.Ref{Kind: callable.Builtin, ID: "file.delete"}, callable.Request{Input: json.RawMessage(`{"path":"/shared/notes","recursive":true}`)})
	var del struct{ UndoToken string }
	if err != nil || json.Unmarshal(made.Output, &del) != nil {
		t.Fatal(err)
	}
	var undone coretools.Undone
	if s.call("workspace.undo", coretools.UndoParams{Token: del.UndoToken}, &undone); undone.Path != "/shared/notes" || !undone.Restored {
		t.Errorf("%+v", undone)
	}
}

// A step that reads a file outside needs a permission; an unattended run does not wait.
func TestStepsReadOnlyWhatIsAllowed(t *testing.T) {
	t.Parallel()
	c := newChain(t)
	dir, err := os.MkdirTemp("/var/tmp", "helix-read-") // /tmp is the workspace's own
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "a.txt")
	if err := os.WriteFile(path, []byte("outside"), 0o600); err != nil {
		t.Fatal(err)
	}
	m := c.save("Reads", `[{"stepId":"read","toolName":"file.read","toolType":"builtin","parameters":{"path":"`+path+`"},"outputMapping":"$.text"}]`)
	p, err := c.Skills.PreviewRights(c.ctx, skills.PreviewRightsParams{SkillID: &m.SkillID})
	if err != nil || len(p.Steps) != 1 || len(p.Steps[0].Missing) != 1 || p.Steps[0].Missing[0] != "filesystem:read("+path+")" {
		t.Errorf("%+v, %v", p, err)
	}
	unattended := func() (callable.Result, error) {
		return c.Callables.Call(c.ctx, callable.Ref{Kind: callable.Skill, ID: m.SkillID.String()}, callable.Request{Caller: callable.Caller{Kind: "schedule", Run: storage.NewID()}})
	}
	if out, err := unattended(); !fault.Is(err, fault.Denied) {
		t.Errorf("without the right: %+v, %v", out, err)
	}
	c.answer("approve", "always")
	if out, err := unattended(); err != nil || string(out.Output) != `"outside"` {
		t.Errorf("with the right: %s, %v", out.Output, err)
	}
	for _, own := range []string{filepath.Join(c.Config.Paths().Data, "helix.db"), c.Config.Paths().ConfigFile(), filepath.Join(c.Config.Paths().User, "SYSTEM.md"), filepath.Join(c.Config.Paths().User, "soul", "HELIX_SOUL.md")} {
		for name, input := range map[string]any{
			"file.write": map[string]string{"path": own, "text": "x"}, "file.delete": map[string]string{"path": own}, "file.edit": map[string]string{"path": own, "old": "a", "new": "b", "hash": "0"},
		} {
			text, err := json.Marshal(input)
			if err != nil {
				t.Fatal(err)
			}
			before, _ := os.ReadFile(own)
			_, err = c.Callables.Call(c.ctx, callable.Ref{Kind: callable.Builtin, ID: name}, callable.Request{Input: text})
			after, _ := os.ReadFile(own)
			if r, _ := callable.RefusalOf(err); !strings.HasPrefix(own, "/tmp/") && r.Reason != permission.ReasonNever || string(before) != string(after) {
				t.Errorf("%s %s: %v", name, own, err)
			}
		}
	}
}

// TestCoreToolsConform runs the suite of providers over the tools for files.
func TestCoreToolsConform(t *testing.T) {
	t.Parallel()
	c := newChain(t)
	h := callabletest.Harness{Ctx: c.ctx, Registry: c.Callables, Nothing: c.noAuthority(), Kind: callable.Builtin}
	h.Good, h.Bad = callabletest.Case{ID: "file.list", Input: `{"path":"/shared"}`}, `{"path":1}`
	h.Outside = &h.Good
	h.Acts = &callabletest.Case{ID: "file.write", Input: `{"path":"/shared/a.txt","text":"a"}`}
	h.Effects = func() int {
		st, err := c.CoreTools.Status(c.ctx, struct{}{})
		if err != nil {
			t.Fatal(err)
		}
		return st.Areas[0].Files
	}
	callabletest.Run(t, h)
}
