package skills

import (
	"context"
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"helix/backend/callable"
	"helix/backend/callable/netgate"
	"helix/backend/duration"
	"helix/backend/fault"
	"helix/backend/permission"
	"helix/backend/safehttp"
	"helix/backend/schema"
)

// tierReadOnly is the tier of calls that change nothing outside themselves.
const tierReadOnly = "readOnly"

// BuiltinOptions are the dependencies of the built-in steps.
type BuiltinOptions struct {
	Now func() time.Time // nil: time.Now
	// HTTP creates the client of http.request, for tests; nil: safehttp.New.
	HTTP func(safehttp.Options) *safehttp.Client
	// DenyPort reports whether a port of this computer belongs to Helix; nil: none does.
	DenyPort func(port int) bool
	// Allow decides whether a call may send its request to an address; nil: no request is allowed.
	Allow netgate.Allow
	// Rights returns the capabilities that a request with this input needs; nil: they are
	// determined when it is sent.
	Rights func(ctx context.Context, input json.RawMessage) (permission.PreviewResult, error)
	// Notify shows a notification to the user; nil: notifications are refused.
	Notify func(ctx context.Context, n Notification) error
}

// Notification is the event skills.notification: a skill shows a notification.
type Notification struct {
	NoticeID    uuid.UUID `json:"noticeId"` // the same when the step is repeated, so that it is shown once
	ExecutionID uuid.UUID `json:"executionId"`
	Skill       string    `json:"skill"`
	Title       string    `json:"title"`
	Body        string    `json:"body"`
	Level       string    `json:"level"` // info, success, warning or error
	At          time.Time `json:"at"`
}

// Builtins returns the built-in steps, sorted by name. closing releases their resources.
func Builtins(o BuiltinOptions) (list []callable.Func, closing func()) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.HTTP == nil {
		o.HTTP = safehttp.New
	}
	w := newWeb(&o)
	return []callable.Func{w.builtin(), jsonValidate(), notify(&o), timeNow(&o), waitStep()}, w.client.Close
}

func rawJSON(text string) json.RawMessage { return json.RawMessage(text) }

// decodeInput decodes the input of a built-in, which was already validated against its schema.
func decodeInput(input json.RawMessage, into any) error {
	if err := json.Unmarshal(input, into); err != nil {
		return fault.Invalidf("The input is not valid for this step.").WithCause(err)
	}
	return nil
}

func timeNow(o *BuiltinOptions) callable.Func {
	return callable.Func{
		Info: callable.Info{
			Name: "time.now", Title: "Returns the date and time.", Effects: callable.Effects{ReadOnly: true, Idempotent: true},
			Input: rawJSON(`{"type":"object","additionalProperties":false,"properties":{
			"timezone":{"type":"string","maxLength":64,"description":"Time zone such as Europe/Berlin. Default: UTC."}}}`),
			Output: rawJSON(`{"type":"object","required":["iso","unixMs","date","time","weekday","timezone"],"properties":{
			"iso":{"type":"string","format":"date-time"},"unixMs":{"type":"integer"},"date":{"type":"string","format":"date"},"time":{"type":"string"},
			"weekday":{"type":"integer","minimum":1,"maximum":7,"description":"1 is Monday."},"timezone":{"type":"string"}}}`),
		},
		Run: callable.Typed(func(_ context.Context, c callable.Request, in struct{ Timezone string }) (any, error) {
			if in.Timezone == "" {
				in.Timezone = "UTC"
			}
			zone, err := time.LoadLocation(in.Timezone)
			if err != nil || strings.EqualFold(in.Timezone, "local") {
				return nil, fault.Invalidf("%.64q is not a time zone; write one such as Europe/Berlin.", in.Timezone)
			}
			t := o.Now().In(zone)
			return map[string]any{
				"iso": t.Format(time.RFC3339Nano), "unixMs": t.UnixMilli(), "date": t.Format(time.DateOnly), "time": t.Format(time.TimeOnly),
				"weekday": (int(t.Weekday())+6)%7 + 1, "timezone": in.Timezone,
			}, nil
		}),
	}
}

const (
	waitName = "wait"
	maxWait  = 24 * time.Hour
)

// waitStep is the durable timer. The engine carries it out itself, so that waiting takes no slot
// and survives a restart; waitTime returns its duration.
func waitStep() callable.Func {
	return callable.Func{
		Info: callable.Info{
			Name: waitName, Title: "Waits for up to a day, even across a restart.", Effects: callable.Effects{ReadOnly: true, Idempotent: true},
			Input: rawJSON(`{"type":"object","additionalProperties":false,"minProperties":1,"maxProperties":1,"properties":{
			"ms":{"type":"integer","minimum":0,"maximum":86400000,"description":"Milliseconds to wait."},
			"seconds":{"type":"number","minimum":0,"maximum":86400,"description":"Seconds to wait."},
			"until":{"type":"string","format":"date-time","description":"When to continue, at most a day from now. A time in the past continues at once."}}}`),
			Output: rawJSON(`{"type":"object","required":["waitedMs"],"properties":{"waitedMs":{"type":"integer"}}}`),
		},
		Run: func(context.Context, callable.Request) (any, error) {
			return nil, fault.Unavailablef("Only a run can wait.")
		},
	}
}

// waitTime returns how long a call of the step wait takes, starting at at.
func waitTime(input json.RawMessage, at time.Time) (time.Duration, error) {
	var in struct {
		Ms      *int64
		Seconds *float64
		Until   *time.Time
	}
	if err := decodeInput(input, &in); err != nil {
		return 0, err
	}
	var d time.Duration
	switch {
	case in.Ms != nil:
		if *in.Ms > maxWait.Milliseconds() {
			return 0, errLongWait()
		}
		d = duration.Of(*in.Ms, time.Millisecond)
	case in.Seconds != nil:
		if *in.Seconds > maxWait.Seconds() {
			return 0, errLongWait()
		}
		d = time.Duration(*in.Seconds * float64(time.Second))
	case in.Until != nil:
		d = in.Until.Sub(at)
	default:
		return 0, fault.Invalidf("Say how long to wait: ms, seconds or until.")
	}
	if d > maxWait {
		return 0, errLongWait()
	}
	return max(0, d), nil
}

func errLongWait() error { return fault.Invalidf("A step waits for at most 24 hours.") }

// Limits of a notification; longer texts are truncated.
const (
	maxNoticeTitle = 200
	maxNoticeBody  = 2000
)

func notify(o *BuiltinOptions) callable.Func {
	return callable.Func{
		Info: callable.Info{
			Name: "notify", Title: "Shows a notification.", Effects: callable.Effects{Idempotent: true},
			Input: rawJSON(`{"type":"object","additionalProperties":false,"required":["title"],"properties":{
			"title":{"type":"string","minLength":1,"description":"What happened, in one line."},
			"body":{"type":"string","description":"More about it."},
			"level":{"enum":["info","success","warning","error"],"description":"Default: info."}}}`),
			Output: rawJSON(`{"type":"object","required":["noticeId"],"properties":{"noticeId":{"type":"string","format":"uuid"}}}`),
		},
		Run: callable.Typed(func(ctx context.Context, c callable.Request, in struct{ Title, Body, Level string }) (any, error) {
			if o.Notify == nil {
				return nil, fault.Unavailablef("Notifications are not available here.")
			}
			if in.Level == "" {
				in.Level = "info"
			}
			n := Notification{
				NoticeID: uuid.NewSHA1(c.Caller.Run, []byte(c.Key)), ExecutionID: c.Caller.Run, Skill: c.Caller.Label,
				Title: cutText(in.Title, maxNoticeTitle), Body: cutText(in.Body, maxNoticeBody), Level: in.Level, At: o.Now().UTC().Truncate(time.Microsecond),
			}
			if err := o.Notify(ctx, n); err != nil {
				return nil, err
			}
			return map[string]any{"noticeId": n.NoticeID}, nil
		}),
	}
}

// cutText truncates a text to n characters.
func cutText(text string, n int) string {
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	return string([]rune(text)[:n-1]) + "…"
}

func jsonValidate() callable.Func {
	return callable.Func{
		Info: callable.Info{
			Name: "json.validate", Title: "Checks a value against a JSON Schema.", Effects: callable.Effects{ReadOnly: true, Idempotent: true},
			Input: rawJSON(`{"type":"object","additionalProperties":false,"required":["value","schema"],"properties":{
			"value":{"description":"Any JSON."},
			"schema":{"type":["object","boolean"],"description":"JSON Schema 2020-12."},
			"strict":{"type":"boolean","description":"Fail the step when the value does not match. Default: false."}}}`),
			Output: rawJSON(`{"type":"object","required":["valid","errors"],"properties":{"valid":{"type":"boolean"},
			"errors":{"type":"array","items":{"type":"object","properties":{"path":{"type":"string"},"keyword":{"type":"string"},"message":{"type":"string"}}}}}}`),
		},
		Run: callable.Typed(func(ctx context.Context, c callable.Request, in struct {
			Value, Schema json.RawMessage
			Strict        bool
		}) (any, error) {
			if in.Value == nil {
				in.Value = rawJSON("null")
			}
			found, err := schema.CheckJSON(ctx, in.Schema, in.Value)
			if err != nil {
				return nil, err
			}
			if in.Strict && len(found) > 0 {
				return nil, fault.Invalidf("The value does not match the schema: %s %s.", found[0].Path, found[0].Message)
			}
			if found == nil {
				found = []schema.Finding{}
			}
			return map[string]any{"valid": len(found) == 0, "errors": found}, nil
		}),
	}
}
