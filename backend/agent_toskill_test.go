package backend

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"helix/backend/agent"
	"helix/backend/coretools"
	"helix/backend/providers"
	"helix/backend/skills"
)

// A run becomes a disabled draft in whose dry run each step gets the arguments of its call: values
// from earlier results and from the person are taken from there, text composed by the model is
// kept.
func TestRunsBecomeSkills(t *testing.T) {
	t.Parallel()
	type run struct {
		asked  string
		calls  []providers.ScriptedReply
		answer string
		steps  int
		mapped []string // argument=from
		text   []string // arguments that stay literal
	}
	write := func(path, text string) providers.ScriptedReply {
		args, _ := json.Marshal(map[string]string{"path": path, "text": text})
		return calls("file_write", string(args))
	}
	read := func(path string) providers.ScriptedReply { return calls("file_read", `{"path":"`+path+`"}`) }
	list := calls("file_list", `{"path":"/shared"}`)
	runs := []run{
		{"Write a note", []providers.ScriptedReply{write("/shared/r0.txt", "composed by the model")}, "Done.", 1, nil, []string{"path", "text"}},
		{"Write Hamburg into /shared/r1.txt", []providers.ScriptedReply{write("/shared/r1.txt", "Hamburg")}, "Done.", 1, []string{"path=$.input.path", "text=$.input.text"}, nil},
		{"Copy the note", []providers.ScriptedReply{read("/shared/source.txt"), write("/shared/r2.txt", "The text of the source.")}, "Done.", 2, []string{"text=$.steps.step1.output.text"}, []string{"path", "path"}},
		{"Look and write", []providers.ScriptedReply{read("/shared/source.txt"), write("/shared/r3.txt", "something else")}, "Done.", 1, nil, []string{"path", "text"}},
		{"What is in the note?", []providers.ScriptedReply{read("/shared/source.txt")}, "It says: The text of the source.", 1, nil, []string{"path"}},
		{"Read /shared/source.txt, then say it", []providers.ScriptedReply{read("/shared/source.txt")}, "The text of the source.", 1, []string{"path=$.input.path"}, nil},
		{"Fail first", []providers.ScriptedReply{read("/shared/not-there.txt"), write("/shared/r6.txt", "after a failure")}, "Done.", 1, nil, []string{"path", "text"}},
		{"Note to yourself", []providers.ScriptedReply{calls("scratchpad_write", `{"text":"remember"}`), write("/shared/r7.txt", "with a note")}, "Done.", 1, nil, []string{"path", "text"}},
		{"Dollar", []providers.ScriptedReply{write("/shared/r8.txt", "$.input.path")}, "Done.", 1, nil, []string{"path", "text"}},
		{"Twice", []providers.ScriptedReply{write("/shared/r9.txt", "first line"), write("/shared/r9b.txt", "second line")}, "Done.", 2, nil, []string{"path", "text", "path", "text"}},
		{"Chain", []providers.ScriptedReply{write("/shared/r10.txt", "chained"), read("/shared/r10.txt"), write("/shared/r10b.txt", "other words")}, "Done.", 2, nil, []string{"path", "text", "path", "text"}},
		{"List them", []providers.ScriptedReply{list, write("/shared/r11.txt", "list made")}, "Done.", 1, nil, []string{"path", "text"}},
	}
	for n := len(runs); n < 20; n++ { // values from the person are inputs, however they are written
		word := fmt.Sprintf("Größe-%d", 1000+n)
		runs = append(runs, run{fmt.Sprintf("Keep «%s» in a file", word), []providers.ScriptedReply{write(fmt.Sprintf("/shared/r%d.txt", n), word)}, "Done.", 1, []string{"text=$.input.text"}, []string{"path"}})
	}
	var script []providers.ScriptedReply
	for _, r := range runs {
		script = append(append(script, r.calls...), providers.ScriptedReply{Text: r.answer})
	}
	c := newChatter(t, testOptions(t.TempDir()), script...)
	var at coretools.Status
	c.call("workspace.status", nil, &at)
	if err := os.WriteFile(filepath.Join(at.Root, "shared", "source.txt"), []byte("The text of the source."), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, r := range runs {
		s := c.create(agent.CreateParams{Mode: agent.ModeWork})
		turn := c.say(s.ID, r.asked)
		if turn.State != agent.Completed {
			t.Fatalf("%s: %+v %+v", r.asked, turn, c.results(s.ID))
		}
		var out agent.ToSkillResult
		c.call("agent.to_skill", agent.ToSkillParams{TurnIDs: []uuid.UUID{turn.TurnID}}, &out)
		var mapped, text []string
		steps := 0
		for _, x := range out.Trace {
			if x.StepID == "" {
				continue
			}
			steps++
			for _, m := range x.Mapped {
				mapped = append(mapped, m.Argument+"="+m.From)
			}
			text = append(text, x.Literal...)
		}
		if !out.Skill.Valid || !out.Check.Identical || steps != r.steps || len(out.Check.Steps) != steps || !slices.Equal(mapped, r.mapped) || !slices.Equal(text, r.text) {
			t.Errorf("%s: %d steps, mapped %v, literal %v, %+v, results %+v", r.asked, steps, mapped, text, out, c.results(s.ID))
		}
		kept, err := c.b.Skills.GetMetadata(c.ctx(), skills.SkillParams{SkillID: out.Skill.ID})
		if err != nil || kept.IsEnabled {
			t.Errorf("%s: enabled, or not there: %v", r.asked, err)
		}
	}
}

// A run without repeatable calls produces no skill, and names of skills stay unique.
func TestRunsThatAreNoSkills(t *testing.T) {
	t.Parallel()
	write := calls("file_write", `{"path":"/shared/x.txt","text":"hello there"}`)
	c := newChatter(t, testOptions(t.TempDir()), providers.ScriptedReply{Text: "Hello."}, write, providers.ScriptedReply{Text: "Done."})
	s := c.create(agent.CreateParams{Mode: agent.ModeWork})
	turn := c.say(s.ID, "Hello")
	if err := c.try("agent.to_skill", agent.ToSkillParams{TurnIDs: []uuid.UUID{turn.TurnID}}, nil); err == nil || !strings.Contains(err.Error(), "Nothing in these turns") {
		t.Errorf("%v", err)
	}
	turn = c.say(s.ID, "Write")
	var one, two agent.ToSkillResult
	c.call("agent.to_skill", agent.ToSkillParams{TurnIDs: []uuid.UUID{turn.TurnID}, Name: "Greeting"}, &one)
	c.call("agent.to_skill", agent.ToSkillParams{TurnIDs: []uuid.UUID{turn.TurnID}, Name: "Greeting"}, &two)
	if one.Skill.Name != "Greeting" || two.Skill.Name != "Greeting 2" {
		t.Errorf("%+v, %+v", one.Skill, two.Skill)
	}
	if err := c.try("agent.to_skill", agent.ToSkillParams{TurnIDs: []uuid.UUID{turn.TurnID, uuid.New()}}, nil); err == nil {
		t.Error("a turn that is not there is accepted")
	}
}
