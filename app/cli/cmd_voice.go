package cli

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/transcribe"
	"helix/backend/voice"
)

// keptOnly is the exit code of a recording that is stored and not transcribed yet.
const keptOnly = 8

type voiceCmd struct {
	Transcribe voiceTranscribeCmd `cmd:"" help:"Transcribe recordings, and with --store keep them as memos."`
	Search     voiceSearchCmd     `cmd:"" help:"Find words in what was said, with their times."`
	List       voiceListCmd       `cmd:"" default:"withargs" help:"List memos, the latest first."`
	Record     voiceRecordCmd     `cmd:"" help:"Record from the microphone until interrupted."`
	Toggle     voiceToggleCmd     `cmd:"" help:"Start a recording in the running Helix, or stop it. Bind this to a key."`
	Devices    voiceDevicesCmd    `cmd:"" help:"List the microphones."`
	Commands   voiceCommandsCmd   `cmd:"" help:"List spoken commands, and test what a text would do."`
	Queue      voiceQueueCmd      `cmd:"" help:"See recordings that wait for their transcript, and retry those that failed."`
	Models     voiceModelsCmd     `cmd:"" help:"List the engines that transcribe, and install or remove their models."`
}

type voiceTranscribeCmd struct {
	Files    []string `arg:"" name:"file" help:"WAV, FLAC, MP3, Ogg or WebM files."`
	Engine   string   `placeholder:"ID" help:"An engine of helix voice models. Default: that of the settings."`
	Language string   `placeholder:"TAG" help:"The language that is spoken, such as en-US. Default: that of the settings."`
	Format   string   `default:"text" enum:"text,json,srt,vtt" help:"What to print: text, json, or subtitles as srt or vtt."`
	Store    bool     `help:"Keep each recording as a memo that helix voice search finds."`
}

func (v *voiceTranscribeCmd) Run(c *command) error {
	code := 0
	for _, file := range v.Files {
		path, err := filepath.Abs(file)
		if err != nil {
			return fault.Invalidf("%s is not a path.", file)
		}
		p := voice.ProcessParams{Path: path, Discard: !v.Store, Engine: v.Engine, Language: v.Language}
		if v.Store {
			p.Title = strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
		}
		var r voice.ProcessResult
		raw, err := c.call("voice.process", p, &r)
		if err == nil && !r.Success {
			err = c.notTranscribed(r)
			code = keptOnly
		}
		if err != nil {
			if len(v.Files) == 1 && r.Status == "" {
				return err
			}
			fmt.Fprintf(c.env.Stderr, "helix: %s: %s\n", plain(file), fault.As(err).Message)
			if code == 0 {
				code = ExitCode(fault.KindOf(err))
			}
			continue
		}
		if r.LostMs > 0 {
			c.say("%s: %.1f s could not be decoded.", plain(file), float64(r.LostMs)/1000)
		}
		if c.JSON || v.Format == "json" {
			if err := c.printJSON(raw); err != nil {
				return err
			}
			continue
		}
		if len(v.Files) > 1 && v.Format == "text" {
			fmt.Fprintf(c.env.Stdout, "%s: ", plain(file))
		}
		printTranscript(c.env.Stdout, v.Format, r)
	}
	if code != 0 {
		return failed{code}
	}
	return nil
}

// notTranscribed says why a recording that is stored has no text yet.
func (c *command) notTranscribed(r voice.ProcessResult) error {
	reason := first(r.Error, "It will be transcribed while Helix runs.")
	if r.Status == "failed" {
		return fault.Unavailablef("The recording is kept, but it was not transcribed: %s", reason)
	}
	return fault.Unavailablef("The recording is kept and not transcribed yet: %s", reason)
}

func printTranscript(w io.Writer, format string, r voice.ProcessResult) {
	if format == "text" {
		fmt.Fprintln(w, plain(r.Transcript))
		return
	}
	sep := ","
	if format == "vtt" {
		sep = "."
		fmt.Fprint(w, "WEBVTT\n\n")
	}
	for i, cue := range cues(r.Words) {
		if format == "srt" {
			fmt.Fprintln(w, i+1)
		}
		texts := make([]string, len(cue))
		for k, word := range cue {
			texts[k] = plain(word.Text)
		}
		fmt.Fprintf(w, "%s --> %s\n%s\n\n", stamp(cue[0].StartMs, sep), stamp(cue[len(cue)-1].EndMs, sep), strings.Join(texts, " "))
	}
}

// cues divides words into subtitles: at pauses, and before they get longer than two lines or five seconds.
func cues(words []transcribe.Word) (out [][]transcribe.Word) {
	chars := 0
	for i, w := range words {
		if n := len(out) - 1; n < 0 || w.StartMs-words[i-1].EndMs > 700 || w.EndMs-out[n][0].StartMs > 5000 || chars+len(w.Text) > 80 {
			out, chars = append(out, nil), 0
		}
		out[len(out)-1] = append(out[len(out)-1], w)
		chars += len(w.Text) + 1
	}
	return out
}

func stamp(ms int64, sep string) string {
	return fmt.Sprintf("%02d:%02d:%02d%s%03d", ms/3_600_000, ms/60_000%60, ms/1000%60, sep, ms%1000)
}

type voiceSearchCmd struct {
	Query  string   `arg:"" help:"Words that were said, or stand in the title or the tags. The last may be a beginning."`
	Tag    []string `help:"Only memos with this tag; may be repeated."`
	Since  string   `placeholder:"TIME" help:"Only recordings from this time on, as 2026-01-31 or RFC 3339."`
	Until  string   `placeholder:"TIME" help:"Only recordings before this time."`
	Limit  int      `default:"20"`
	Offset int      `default:"0"`
}

func (v *voiceSearchCmd) Run(c *command) error {
	p := voice.SearchParams{Query: v.Query, Tags: v.Tag, Limit: v.Limit, Offset: v.Offset}
	if err := timeSpan(v.Since, v.Until, &p.From, &p.To); err != nil {
		return err
	}
	return show(c, "voice.search_transcripts", p, func(r voice.SearchResult) {
		if len(r.Results) == 0 {
			c.say("No results.")
			return
		}
		list(c, r.Results, "", []string{"RECORDED", "TITLE", "AT", "TEXT"}, func(h voice.Hit) []string {
			at := "-"
			if h.StartMs >= 0 {
				at = clock(h.StartMs)
			}
			return []string{h.RecordedAt.Local().Format(time.DateTime), first(h.Title, "(no title)"), at, h.Snippet}
		})
		if n := len(r.Results) + v.Offset; n < r.Total {
			c.say("%d of %d. Next: --offset %d", n, r.Total, n)
		}
	})
}

// timeSpan reads the two ends of a span of time; "" leaves an end open.
func timeSpan(since, until string, from, to **time.Time) error {
	for text, dst := range map[*string]**time.Time{&since: from, &until: to} {
		if *text == "" {
			continue
		}
		at, err := parseDay(*text)
		if err != nil {
			return err
		}
		*dst = &at
	}
	return nil
}

// clock shows a place in a recording.
func clock(ms int64) string {
	return fmt.Sprintf("%d:%02d.%d", ms/60_000, ms/1000%60, ms/100%10)
}

type voiceListCmd struct {
	Query  string   `arg:"" optional:"" help:"Words of the text, the title or the tags."`
	Tag    []string `param:"tags" help:"Only memos with this tag; may be repeated."`
	Status string   `enum:",pending,processing,completed,failed" default:"" help:"pending, processing, completed or failed."`
	Limit  int      `default:"50"`
	Offset int      `default:"0"`
}

func (v *voiceListCmd) Run(c *command) error {
	return answer(c, "voice.list_memos", func(r voice.ListResult) {
		if len(r.Memos) == 0 {
			c.say("No memos. Store a recording with: helix voice transcribe FILE --store")
			return
		}
		list(c, r.Memos, "", []string{"ID", "RECORDED", "LENGTH", "STATUS", "TITLE", "TEXT"}, func(m voice.Memo) []string {
			length := "-"
			if m.DurationMs != nil {
				length = clock(*m.DurationMs)
			}
			return []string{m.ID.String(), m.RecordedAt.Local().Format(time.DateTime), length, m.Status, first(m.Title, "(no title)"), cut(first(m.Text, m.Error), 60)}
		})
		if n := len(r.Memos) + v.Offset; n < r.Total {
			c.say("%d of %d. Next: --offset %d", n, r.Total, n)
		}
	})
}

type voiceQueueCmd struct {
	List  voiceQueueListCmd     `cmd:"" default:"1" help:"List recordings that wait, are being transcribed or failed."`
	Retry struct{ voiceJobArg } `cmd:"" help:"Transcribe a recording again that failed or waits." call:"voice.retry" say:"It will be transcribed again."`
	Skip  struct{ voiceJobArg } `cmd:"" help:"Leave a recording without its transcript." call:"voice.skip" say:"Skipped. The recording is kept."`
}

type voiceQueueListCmd struct{}

func (*voiceQueueListCmd) Run(c *command) error {
	return show(c, "voice.queue", struct{}{}, func(r voice.QueueResult) {
		list(c, r.Jobs, "The queue is empty.", []string{"ID", "TITLE", "ENGINE", "STATUS", "ATTEMPTS", "NEXT", "ERROR"}, func(j voice.Job) []string {
			next := "-"
			if j.NextAttempt != nil {
				next = j.NextAttempt.Local().Format(time.DateTime)
			}
			return []string{j.ID.String(), first(j.Title, "(no title)"), j.Engine, j.Status, fmt.Sprintf("%d/%d", j.Attempts, j.MaxAttempts), next, j.Error}
		})
	})
}

type voiceJobArg struct {
	ID uuid.UUID `arg:"" param:"jobId" help:"The id of the job, from helix voice queue."`
}

type voiceModelsCmd struct {
	List    voiceModelsListCmd      `cmd:"" default:"1" help:"List the engines that transcribe, and their models."`
	Install voiceModelsInstallCmd   `cmd:"" help:"Download a model for whisper.cpp. Ctrl+C pauses; the same command continues."`
	Remove  struct{ voiceModelArg } `cmd:"" help:"Delete a model from this device, or what was downloaded of it." call:"voice.remove_model" say:"Removed."`
}

type voiceModelArg struct {
	ID string `arg:"" param:"model" help:"The id of the model, from helix voice models."`
}

type voiceModelsInstallCmd struct{ voiceModelArg }

func (*voiceModelsInstallCmd) Run(c *command) error {
	c.Timeout = max(c.Timeout, 12*time.Hour)
	return answer(c, "voice.install_model", func(voice.EnginesResult) {
		c.say("Installed. Use it with: helix rpc voice.update_settings '{\"localEngine\":\"whispercpp\"}'")
	})
}

type voiceModelsListCmd struct{}

func (*voiceModelsListCmd) Run(c *command) error {
	return show(c, "voice.engines", struct{}{}, func(r voice.EnginesResult) {
		rows, models := [][]string{}, [][]string{}
		for _, e := range r.Engines {
			where := "service"
			if e.Local {
				where = "this device"
			}
			rows = append(rows, []string{e.ID, where, first(strings.Join(e.Languages, ", "), "many"), strings.Join(e.Models, ", "), first(e.Reason, "ready")})
			for _, m := range e.Downloads {
				state := "not installed"
				switch {
				case m.Installed:
					state = "installed"
				case m.Downloading:
					state = fmt.Sprintf("downloading, %d %%", 100*m.Done/m.Size)
				case m.Done > 0:
					state = fmt.Sprintf("paused at %d %%", 100*m.Done/m.Size)
				}
				models = append(models, []string{m.ID, e.ID, fmt.Sprintf("%d MB", m.Size/1_000_000), state})
			}
		}
		c.table([]string{"ENGINE", "RUNS ON", "LANGUAGES", "MODELS", "STATE"}, rows)
		if len(models) > 0 {
			fmt.Fprintln(c.env.Stdout)
			c.table([]string{"MODEL", "ENGINE", "SIZE", "STATE"}, models)
		}
	})
}
