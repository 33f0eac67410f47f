package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"helix/backend/fault"
	"helix/backend/voice"
)

type voiceRecordCmd struct {
	Device       string        `placeholder:"ID" help:"A microphone of helix voice devices. Default: that of the settings."`
	Max          time.Duration `placeholder:"DURATION" help:"Stop after this time, such as 10m."`
	Title        string        `placeholder:"TEXT" help:"The title of the memo."`
	Out          string        `placeholder:"FILE" type:"path" help:"Also write the sound to this WAV file."`
	NoTranscribe bool          `help:"Don't wait for the transcript."`
}

func (v *voiceRecordCmd) Run(c *command) error {
	longest := time.Duration(0) // ends the recording if this process is killed
	if v.Max > 0 {
		longest = v.Max + 10*time.Second
	}
	var started voice.StartResult
	if _, err := c.call("voice.start", voice.StartParams{DeviceID: v.Device, Title: v.Title, MaxMs: longest.Milliseconds()}, &started); err != nil {
		return err
	}
	c.say("Recording. Press Ctrl+C to stop.")
	interrupted := c.ctx
	c.ctx = context.WithoutCancel(c.ctx) // the recording is stored after an interrupt
	var limit <-chan time.Time
	if v.Max > 0 {
		limit = time.After(v.Max)
	}
	select {
	case <-interrupted.Done():
	case <-limit:
	}
	var stopped voice.StopResult
	raw, err := c.call("voice.stop", voice.StopParams{RecordingID: &started.RecordingID}, &stopped)
	if err != nil {
		return err
	}
	if v.Out != "" {
		var m voice.Memo
		if _, err := c.call("voice.get_memo", voice.MemoParams{MemoID: *stopped.MemoID}, &m); err != nil {
			return err
		}
		if err := c.saveBlob(m.AudioSHA256, v.Out); err != nil {
			return err
		}
	}
	if v.NoTranscribe || stopped.Status == "canceled" {
		if c.JSON {
			return c.printJSON(raw)
		}
		fmt.Fprintln(c.env.Stdout, stopped.RecordingID)
		return nil
	}
	var r voice.ProcessResult
	raw, err = c.call("voice.process", voice.ProcessParams{RecordingID: &started.RecordingID}, &r)
	switch {
	case err != nil:
		return err
	case !r.Success:
		fmt.Fprintf(c.env.Stderr, "helix: %s\n", fault.As(c.notTranscribed(r)).Message)
		return failed{keptOnly}
	case c.JSON:
		return c.printJSON(raw)
	}
	fmt.Fprintln(c.env.Stdout, plain(r.Transcript))
	return nil
}

type voiceToggleCmd struct {
	Mode string `default:"memo" enum:"memo,command" help:"What a new recording is: memo or command."`
}

func (v *voiceToggleCmd) Run(c *command) error {
	return show(c, "voice.toggle", voice.ToggleParams{Mode: v.Mode}, func(r voice.ToggleResult) { fmt.Fprintln(c.env.Stdout, r.State) })
}

type voiceDevicesCmd struct{}

func (*voiceDevicesCmd) Run(c *command) error {
	return shown(c, "voice.devices", struct{}{}, func(r voice.DevicesResult) {
		if !r.Available {
			c.say("%s", r.Reason)
			return
		}
		rows := [][]string{}
		for _, d := range r.Devices {
			mark := ""
			if d.ID == r.Selected || r.Selected == "" && d.IsDefault {
				mark = "*"
			}
			rows = append(rows, []string{mark, plain(d.Name), d.Backend, d.ID})
		}
		c.table([]string{"", "NAME", "SYSTEM", "ID"}, rows)
	}, func(r voice.DevicesResult) int {
		if r.Available {
			return 0
		}
		return ExitCode(fault.Unavailable)
	})
}

type voiceCommandsCmd struct {
	List voiceCommandsListCmd `cmd:"" default:"1" help:"List spoken commands."`
	Test voiceCommandsTestCmd `cmd:"" help:"See what a text would do, without doing it."`
}

type voiceCommandsListCmd struct{}

func (*voiceCommandsListCmd) Run(c *command) error {
	return show(c, "voice.list_commands", struct{}{}, func(r voice.CommandList) {
		list(c, r.Commands, "No commands. Add them on the Voice screen, or with helix rpc voice.create_command.", []string{"PHRASE", "ACTION", "RISK", "USED", "PROBLEM"}, func(x voice.Command) []string {
			problem := plain(x.Problem)
			if !x.Enabled {
				problem = "disabled"
			}
			return []string{plain(x.TriggerPhrase), x.ActionType + " " + plain(x.ToolID+x.SkillID+x.NavigationTarget+x.SystemAction), x.RiskTier, fmt.Sprint(x.UsageCount), problem}
		})
	})
}

type voiceCommandsTestCmd struct {
	Text []string `arg:"" help:"What is said."`
}

func (v *voiceCommandsTestCmd) Run(c *command) error {
	return show(c, "voice.test_command", voice.TestCommandParams{Text: strings.Join(v.Text, " ")}, func(r voice.MatchResult) {
		fmt.Fprintln(c.env.Stdout, r.Decision)
		rows := [][]string{}
		for _, x := range r.Candidates {
			rows = append(rows, []string{fmt.Sprintf("%.2f", x.Score), plain(x.Name), x.RiskTier, plain(fmt.Sprint(x.Slots)), plain(x.Problem)})
		}
		if len(r.Candidates) > 0 {
			c.table([]string{"SCORE", "COMMAND", "RISK", "SLOTS", "PROBLEM"}, rows)
		}
	})
}
