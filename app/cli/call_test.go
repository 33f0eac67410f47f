package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestDeleteNamesDependentsAndRestoreTakesNames(t *testing.T) {
	t.Parallel()
	file, data := skillFiles(t, skillTexts), dataFolder(t)
	do := func(code int, args ...string) result {
		t.Helper()
		r := helix(t, data, "", args...)
		if r.code != code {
			t.Fatalf("%q: exit %d, want %d: %s%s", args, r.code, code, r.stdout, r.stderr)
		}
		return r
	}
	do(0, "tool", "create", file("counter.js"))
	do(0, "rpc", "skills.create_composite", `{"skill":`+skillTexts["calls.json"]+`}`)
	do(0, "rpc", "skills.create_composite", `{"skill":{"name":"Outer","steps":[{"stepId":"m","toolType":"map","items":"$.input.list","steps":[{"stepId":"s","toolType":"skill","toolName":"Calls"}]}]}}`)
	do(0, "schedule", "create", "--name", "Nightly", "--tool", "counter", "--every", "1h")
	do(0, "schedule", "create", "--name", "Weekly", "--skill", "Calls", "--every", "24h")

	for _, c := range []struct {
		kind, name string
		needs      []string
	}{
		{"tool", "counter", []string{"The schedule Nightly needs it.", "The skill Calls needs it."}},
		{"skill", "Calls", []string{"The schedule Weekly needs it.", "The skill Outer needs it."}},
		{"schedule", "Weekly", nil},
	} {
		r := do(4, c.kind, "delete", c.name)
		for _, want := range append(c.needs, "helix "+c.kind+" delete '"+c.name+"' --yes") {
			if !strings.Contains(r.stderr, want) {
				t.Errorf("%s: %q lacks %q", c.kind, r.stderr, want)
			}
		}
		if n := strings.Count(r.stderr, "needs it"); n != len(c.needs) {
			t.Errorf("%s: %s", c.kind, r.stderr)
		}
		do(0, c.kind, "show", c.name)
		do(0, c.kind, "rm", c.name, "--yes")
		do(3, c.kind, "show", c.name)
		do(0, c.kind, "restore", c.name)
		do(0, c.kind, "show", c.name)
		do(3, c.kind, "restore", c.name)
	}
	do(0, "skill", "delete", "Outer") // nothing depends on it
	do(0, "skill", "restore", "outer")

	// Two deleted schedules with the same name are distinguished by their ids.
	do(0, "schedule", "remove", "Nightly", "--yes")
	do(0, "schedule", "create", "--name", "Nightly", "--tool", "counter", "--every", "1h")
	do(0, "schedule", "delete", "Nightly", "--yes")
	r := do(7, "schedule", "restore", "Nightly")
	ids := regexp.MustCompile(`[0-9a-f-]{36}`).FindAllString(r.stderr, -1)
	if len(ids) != 2 {
		t.Fatalf("%q names not two ids", r.stderr)
	}
	do(0, "schedule", "restore", ids[0])
}

func TestMemoryRestoreTakesTheBeginningOfTheText(t *testing.T) {
	t.Parallel()
	data := dataFolder(t)
	for _, text := range []string{"The spare key is with Nora.", "The spare tire is flat."} {
		if r := helix(t, data, "", "memory", "add", text); r.code != 0 {
			t.Fatal(r)
		}
	}
	list := helix(t, data, "", "memory", "list", "--json")
	for _, id := range regexp.MustCompile(`"id":"([0-9a-f-]{36})"`).FindAllStringSubmatch(list.stdout, -1) {
		if r := helix(t, data, "", "memory", "delete", id[1]); r.code != 0 {
			t.Fatal(r)
		}
	}
	for _, c := range []struct {
		ref    string
		code   int
		stderr string
	}{{"the spare key", 0, "1 restored"}, {"The spare key", 3, "No deleted memory starts"}, {"nothing", 3, "--trash"}} {
		if r := helix(t, data, "", "memory", "restore", c.ref); r.code != c.code || !strings.Contains(r.stderr, c.stderr) {
			t.Errorf("%s: %+v", c.ref, r)
		}
	}
	if r := helix(t, data, "", "memory", "add", "The spare tire is new."); r.code != 0 {
		t.Fatal(r)
	}
	list = helix(t, data, "", "memory", "list", "--json")
	for _, id := range regexp.MustCompile(`"id":"([0-9a-f-]{36})"`).FindAllStringSubmatch(list.stdout, -1) {
		if r := helix(t, data, "", "memory", "rm", id[1]); r.code != 0 {
			t.Fatal(r)
		}
	}
	if r := helix(t, data, "", "memory", "restore", "The spare tire"); r.code != 7 || !strings.Contains(r.stderr, "Use an ID") {
		t.Errorf("%+v", r)
	}
}

func TestErrorsOfDraftsAreNamed(t *testing.T) {
	t.Parallel()
	file, data := skillFiles(t, map[string]string{"bad.ts": "export default () => {\n  const x = ;\n}"}), dataFolder(t)
	if r := helix(t, data, "", "rpc", "skills.create_composite", `{"skill":`+skillTexts["fails.json"]+`}`); r.code != 0 {
		t.Fatal(r)
	}
	if r := helix(t, data, "", "rpc", "skills.create_composite", `{"skill":{"name":"Bad","steps":[{"stepId":"a","toolType":"transform","value":"$.later"}]}}`); r.code != 0 {
		t.Fatal(r)
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"tool", "create", file("bad.ts")}, 2, "  line 2, column 13: Unexpected"},
		{[]string{"tool", "run", file("bad.ts")}, 2, "  line 2, column 13: Unexpected"},
		{[]string{"skill", "run", "Bad"}, 7, "error: steps[0].value (a): "},
	} {
		if r := helix(t, data, "", c.args...); r.code != c.code || !strings.Contains(r.stderr, c.want) {
			t.Errorf("%v: %+v", c.args, r)
		}
	}
}

// TestJSONParses runs every command that needs only a data folder with --json.
func TestJSONParses(t *testing.T) {
	t.Parallel()
	file, data := skillFiles(t, skillTexts), dataFolder(t)
	for _, line := range []string{
		"tool create " + file("counter.js"), "tool list", "tool show counter", "tool run counter --params {\"text\":\"a\"}", "tool validate " + file("counter.js"),
		"tool update counter " + file("counter.js"), "tool versions counter", "tool clone counter --name copy", "tool disable copy", "tool enable copy",
		"tool delete copy", "tool restore copy", "tool export counter", "tool share counter", "tool sign counter", "tool secret list", "tool state show counter", "tool state clear counter",
		"tool usage", "tool audit", "tool templates", "skill list", "skill validate " + file("good.json"), "skill run " + file("good.json") + " --input {\"n\":1}", "skill history",
		"schedule create --name S --tool counter --every 1h", "schedule list", "schedule show S", "schedule edit S --every 2h", "schedule pause S", "schedule resume S", "schedule pause-all",
		"schedule resume-all", "schedule history", "schedule next --every 1h", "schedule delete S --yes", "schedule restore S", "trash", "trash empty --yes",
		"memory add hello", "memory list", "memory search hello", "memory conversations", "memory documents", "memory imports", "memory stats", "memory export",
		"call --list", "call counter --input {\"text\":\"a\"}", "sandbox status", "sandbox verify " + fixture("echo"), "audit list", "audit verify", "audit key",
		"approvals list", "permissions list", "backup create", "backup list", "db check", "keys status", "secrets list", "config list", "config get app.theme", "config set app.theme dark",
		"token list", "token create x", "version", "doctor", "rpc tools.list",
	} {
		r := helix(t, data, "", append([]string{"--json"}, strings.Fields(line)...)...)
		if r.code != 0 {
			t.Errorf("%s: exit %d, %s", line, r.code, r.stderr)
		}
		for row := range strings.Lines(r.stdout) {
			if !json.Valid([]byte(row)) {
				t.Errorf("%s: not JSON: %.200s", line, row)
			}
		}
		if r.stdout == "" && line != "memory export" {
			t.Errorf("%s: no output", line)
		}
	}
}

func TestToolTestComparesSamples(t *testing.T) {
	t.Parallel()
	file, data := skillFiles(t, skillTexts), dataFolder(t)
	made := helix(t, data, "", "tool", "create", file("counter.js"))
	id := strings.TrimSpace(made.stdout)
	sample := `{"toolId":"` + id + `","baseVersion":"1.0.0","patch":{"samples":[{"name":"two","params":{"text":"a b"},"expected":{"words":2}},{"name":"three","params":{"text":"a b"},"expected":{"words":3}}]}}`
	if r := helix(t, data, "", "rpc", "tools.update", sample); r.code != 0 {
		t.Fatal(r)
	}
	if r := helix(t, data, "", "tool", "test", "counter"); r.code != 1 || !strings.Contains(r.stdout, "ok ") || !strings.Contains(r.stdout, "FAILED") {
		t.Errorf("%+v", r)
	}
	var out struct {
		Results []struct {
			Name string
			OK   bool
		}
	}
	r := helix(t, data, "", "--json", "tool", "test", "counter")
	if err := json.Unmarshal([]byte(r.stdout), &out); err != nil || len(out.Results) != 2 || !out.Results[0].OK || out.Results[1].OK {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestChannelsAreFoundByName(t *testing.T) {
	t.Parallel()
	data := dataFolder(t)
	for _, c := range []struct {
		args string
		code int
		want string // in what is printed
	}{
		{"add webhook Door --reply-url http://127.0.0.1:9/r", 0, "Secret"},
		{"allow Door ann --label Ann", 0, "Ann"},
		{"senders door", 0, "Ann"},
		{"add webhook door --reply-url http://127.0.0.1:9/r", 0, "Secret"},
		{"disable Door", 0, "Door: disabled"},
		{"senders Door", 0, "Ann"}, // not the other one, whose name differs in case
		{"senders DOOR", 7, "2 channels are named"},
		{"senders Gate", 3, `No channel is named "Gate".`},
	} {
		if r := helix(t, data, "", append([]string{"channels"}, strings.Fields(c.args)...)...); r.code != c.code || !strings.Contains(r.stdout+r.stderr, c.want) {
			t.Errorf("%s: %+v", c.args, r)
		}
	}
}

func TestManifestsAreFoundByName(t *testing.T) {
	t.Parallel()
	data, api := dataFolder(t), filepath.Join(t.TempDir(), "api.yaml")
	if err := os.WriteFile(api, []byte(`{openapi: 3.0.3, info: {title: Pets, version: 1.0.0}, servers: [{url: "https://pets.example.com"}], paths: {/pets: {get: {summary: List, responses: {"200": {description: ok}}}}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := helix(t, data, "", "openapi", "import", api, "--name", "pets", "--op", "get /pets"); r.code != 0 {
		t.Fatal(r)
	}
	for _, c := range []struct {
		args string
		code int
		want string // in what is printed
	}{
		{"manifest show pets", 0, "pets.example.com"},
		{"manifest enable Pets", 7, "pending approval"},
		{"manifest logs pets", 0, "STARTED"},
		{"openapi auth clear pets key", 3, `No credential is set up for "key".`},
		{"manifest approve pets", 4, "Only a person can approve"},
		{"manifest revoke pets --yes", 0, "Revoked"},
		{"manifest show pets", 3, `No API tool is named "pets".`},
	} {
		if r := helix(t, data, "", strings.Fields(c.args)...); r.code != c.code || !strings.Contains(r.stdout+r.stderr, c.want) {
			t.Errorf("%s: %+v", c.args, r)
		}
	}
}

// A required argument is sent even if it is empty, so that the error is about its value.
func TestArgumentsThatNameNothing(t *testing.T) {
	t.Parallel()
	data := dataFolder(t)
	const none = "00000000-0000-0000-0000-000000000000"
	for _, c := range []struct {
		args   []string
		code   int
		stderr string
	}{
		{[]string{"tool", "versions", ""}, 3, `No tool is named "".`},
		{[]string{"providers", "remove", ""}, 4, "Remove  and its key?"},
		{[]string{"sync", "revoke", none}, 4, none},
		{[]string{"schedule", "history", none}, 3, "not found"},
	} {
		if r := helix(t, data, "", c.args...); r.code != c.code || !strings.Contains(r.stderr, c.stderr) {
			t.Errorf("%q: %+v", c.args, r)
		}
	}
}
