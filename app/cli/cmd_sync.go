package cli

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/cloudsync"
	"helix/backend/duration"
	"helix/backend/fault"
)

type syncCmd struct {
	Status    syncStatusCmd   `cmd:"" default:"withargs" help:"Show the sync status."`
	Setup     syncSetupCmd    `cmd:"" help:"Make a PostgreSQL database your hub and connect this device."`
	Invite    syncInviteCmd   `cmd:"" help:"Create a link that lets one more device join."`
	Enroll    syncEnrollCmd   `cmd:"" help:"Join with a link from another device, or with a recovery code."`
	Recovery  syncRecoveryCmd `cmd:"" name:"recovery-code" help:"Print a new recovery code, which lets a device join when no other is left."`
	RotateKey struct {
		Yes bool `short:"y" help:"Don't ask for confirmation."`
	} `cmd:"" help:"Encrypt everything on the hub with a new key." confirm:"Change the encryption key? Other devices get it with their next sync." call:"sync.rotate_key" say:"New writes use key version $keyVersion. $queued items will be encrypted again during the next syncs."`
	Now         syncNowCmd         `cmd:"" help:"Sync now."`
	Pause       struct{}           `cmd:"" help:"Pause syncing until resumed." call:"sync.pause" say:"Paused."`
	Resume      struct{}           `cmd:"" help:"Resume syncing." call:"sync.resume" say:"Resumed."`
	Conflicts   syncConflictsCmd   `cmd:"" help:"List what two devices changed at the same time."`
	Resolve     syncResolveCmd     `cmd:"" help:"Decide a conflict."`
	Undo        syncUndoCmd        `cmd:"" help:"Undo a resolution, within ten minutes."`
	DeadLetters syncDeadLettersCmd `cmd:"" help:"List what couldn't be synced, retry it or discard it."`
	Trash       trashListCmd       `cmd:"" help:"List what was deleted, the latest first."`
	Restore     trashRestoreCmd    `cmd:"" help:"Restore items from the trash, on all devices."`
	Devices     syncDevicesCmd     `cmd:"" help:"List your devices."`
	Rename      struct {
		ID   uuid.UUID `arg:"" name:"device" param:"id" help:"ID of the device."`
		Name string    `arg:"" help:"Its new name."`
	} `cmd:"" help:"Rename a device." call:"sync.rename_device" say:"Renamed."`
	Revoke struct {
		ID  uuid.UUID `arg:"" name:"device" param:"id" help:"ID of the device."`
		Yes bool      `short:"y" help:"Don't ask for confirmation."`
	} `cmd:"" help:"End a device's access to the hub." confirm:"End the access of device $id?" call:"sync.revoke_device" say:"Its access has ended. The data already on it stays there."`
	Selftest   syncSelftestCmd `cmd:"" help:"Verify that the hub keeps users apart, even against a modified client."`
	Disconnect struct {
		Yes bool `short:"y" help:"Don't ask for confirmation."`
	} `cmd:"" help:"Leave the hub. Everything on this device is kept." confirm:"Leave the hub? Everything on this device is kept." call:"sync.disconnect" say:"Disconnected."`
}

type syncStatusCmd struct {
	Check bool `help:"Exit with 7 if there are open conflicts or items that couldn't be synced, or with 6 if the hub can't be reached."`
}

func (s *syncStatusCmd) Run(c *command) error {
	var st cloudsync.StatusResult
	err := show(c, "sync.status", struct{}{}, func(r cloudsync.StatusResult) {
		st = r
		rows := [][]string{{"state", string(r.State)}}
		if r.Hub != nil {
			rows = append(rows, []string{"hub", r.Hub.Host}, []string{"encrypted", yesNo(r.Hub.Encrypted)},
				[]string{"embeddings", embeddingsText(r.Hub)}, []string{"waiting", fmt.Sprint(r.QueueLength)}, []string{"conflicts", fmt.Sprint(r.Conflicts)}, []string{"not synced", fmt.Sprint(r.FailedCount)})
			if p := r.Initial; p != nil {
				rows = append(rows, []string{"first copy", fmt.Sprintf("%d of %d rows, %s/s, %s left (%s)", p.Rows, p.Of, size(p.BytesPerSecond), duration.Of(p.ETAMS, time.Millisecond).Round(time.Second), p.Table)})
			}
			if behind := r.Behind(); behind > 0 {
				rows = append(rows, []string{"behind", fmt.Sprint(behind)})
			}
			if r.LastSyncTime != nil {
				rows = append(rows, []string{"last sync", r.LastSyncTime.Local().Format(time.DateTime)})
			}
			if r.ClockOffsetMS > 300_000 || r.ClockOffsetMS < -300_000 {
				rows = append(rows, []string{"clock", fmt.Sprintf("this device's clock is off by %s", duration.Of(r.ClockOffsetMS, time.Millisecond).Round(time.Second))})
			}
		}
		if r.Error != "" {
			rows = append(rows, []string{"error", r.Error})
		}
		c.table(nil, rows)
	})
	if err != nil || !s.Check {
		return err
	}
	if st.State == "" { // printed as JSON
		if _, err := c.call("sync.status", struct{}{}, &st); err != nil {
			return err
		}
	}
	switch {
	case st.Conflicts > 0 || st.FailedCount > 0:
		return fault.Conflictf("%d conflicts, %d items not synced.", st.Conflicts, st.FailedCount)
	case st.State == cloudsync.Off:
		return fault.Unavailablef("This device isn't connected to a hub.")
	case st.Error != "":
		return fault.Unavailablef("%s", st.Error)
	}
	return nil
}

// embeddingsText says whether this device sends embeddings and whether the hub could store them.
func embeddingsText(h *cloudsync.HubInfo) string {
	switch {
	case h.Embeddings == cloudsync.EmbeddingsOff && h.Vectors && !h.Encrypted:
		return "off (the hub can store them: see sync.vectors)"
	case h.Embeddings == cloudsync.EmbeddingsEncrypted:
		return "not sent, because the texts are encrypted"
	case h.Embeddings == cloudsync.EmbeddingsUnsupported:
		return "not sent, because the hub lacks the extension vector"
	}
	return string(h.Embeddings)
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

type syncSetupCmd struct {
	AdminDSN     string `name:"admin-dsn" placeholder:"-" help:"Read the administrator's connection string from standard input. Without it SUPABASE_DB_URL is used."`
	Email        string `help:"Sign in to a project that is already a hub, with a code sent to this address."`
	URL          string `name:"project-url" env:"SUPABASE_URL" placeholder:"URL" help:"Address of the project to sign in to."`
	Key          string `name:"publishable-key" env:"SUPABASE_ANON_KEY" placeholder:"KEY" help:"Publishable key of the project to sign in to."`
	NoEncryption bool   `help:"Don't encrypt sensitive fields before they leave this device."`
	Name         string `help:"Name of this device. Default: the name of the computer."`
}

// signIn asks for the code that the project sends by e-mail.
func (s *syncSetupCmd) signIn(c *command, p *cloudsync.SetupParams) error {
	p.Project = &cloudsync.Project{URL: s.URL, PublishableKey: s.Key, Email: s.Email}
	if _, err := c.call("sync.sign_in", p.Project, &struct{}{}); err != nil {
		return err
	}
	c.say("Enter the code from the e-mail to %s:", plain(s.Email))
	line, err := bufio.NewReader(io.LimitReader(c.env.Stdin, 1<<10)).ReadString('\n')
	if err != nil && err != io.EOF {
		return fault.Invalidf("Couldn't read standard input.").WithCause(err)
	}
	if p.Code = strings.TrimSpace(line); p.Code == "" {
		return fault.Invalidf("No code was entered.")
	}
	return nil
}

// secretInput reads a value that must not be an argument, which other programs could see.
func (c *command) secretInput(given, name, variable string) (string, error) {
	switch {
	case given == "-":
		b, err := io.ReadAll(io.LimitReader(c.env.Stdin, 64<<10))
		if err != nil {
			return "", fault.Invalidf("Couldn't read standard input.").WithCause(err)
		}
		return strings.TrimSpace(string(b)), nil
	case given != "":
		return "", fault.Invalidf("Don't give the connection string as an argument: other programs see it. Use --%s - and standard input, or %s.", name, variable)
	}
	if v := os.Getenv(variable); v != "" {
		return v, nil
	}
	return "", fault.Invalidf("Give the connection string on standard input with --%s -, or in %s.", name, variable)
}

func (s *syncSetupCmd) Run(c *command) error {
	encrypt := !s.NoEncryption
	p := cloudsync.SetupParams{Encrypt: &encrypt, Name: s.Name}
	var err error
	if s.Email != "" {
		err = s.signIn(c, &p)
	} else {
		p.AdminDSN, err = c.secretInput(s.AdminDSN, "admin-dsn", "SUPABASE_DB_URL")
	}
	if err != nil {
		return err
	}
	return show(c, "sync.setup", p, func(r cloudsync.SetupResult) {
		if r.Updated {
			c.say("The hub is up to date: it needed %d updates and passed %d checks.", r.Migrations, r.Checks)
			return
		}
		c.say("Connected as device %d. Sensitive fields are encrypted: %s.", r.Site, yesNo(r.Encrypted))
		c.say("The hub can store embeddings for search by meaning: %s.", yesNo(r.Vectors))
		c.say("Add another device with: helix sync invite")
		c.sayRecovery(r.RecoveryCode)
	})
}

func (c *command) sayRecovery(code string) {
	c.say("Recovery code, which is shown only now. Write it down and keep it in a safe place:")
	fmt.Fprintln(c.env.Stdout, code)
}

type syncRecoveryCmd struct {
	Yes bool `short:"y" help:"Don't ask for confirmation."`
}

func (r *syncRecoveryCmd) Run(c *command) error {
	if err := c.confirm(r.Yes, "Make a new recovery code? The previous code stops working."); err != nil {
		return err
	}
	return show(c, "sync.export_recovery", struct{}{}, func(r cloudsync.RecoveryResult) { c.sayRecovery(r.Code) })
}

type syncInviteCmd struct {
	Name string `arg:"" optional:"" help:"Name of the new device."`
}

func (*syncInviteCmd) Run(c *command) error {
	return answer(c, "sync.invite", func(r cloudsync.InviteResult) {
		fmt.Fprintln(c.env.Stdout, r.Link)
		c.say("Run this on the other device before %s, then paste the link: helix sync enroll -", r.ExpiresAt.Local().Format(time.TimeOnly))
	})
}

type syncEnrollCmd struct {
	Link string `arg:"" help:"The link or recovery code, or - for standard input."`
	Name string `help:"Name of this device. Default: the name of the computer."`
}

func (e *syncEnrollCmd) Run(c *command) error {
	link := e.Link
	if link == "-" {
		var err error
		if link, err = c.secretInput("-", "", ""); err != nil {
			return err
		}
	}
	return show(c, "sync.enroll", cloudsync.EnrollParams{Code: link, Name: e.Name}, func(r cloudsync.SetupResult) {
		c.say("Connected as device %d. Sync now with: helix sync now", r.Site)
	})
}

type syncNowCmd struct{}

func (*syncNowCmd) Run(c *command) error {
	return show(c, "sync.coordinate", cloudsync.CoordinateParams{}, func(r cloudsync.CoordinateResult) {
		c.say("%d sent, %d received, %d merged, %d new conflicts.", r.Pushed, r.Pulled, r.Merged, r.Conflicts)
		if r.DeadLetters > 0 {
			c.say("%d items couldn't be synced. See: helix sync dead-letters", r.DeadLetters)
		}
	})
}

type syncConflictsCmd struct {
	Status string `default:"open" enum:"open,resolved,auto,all" help:"Which conflicts (${enum}). In an auto conflict, the later write won."`
	Limit  int    `default:"50"`
	Offset int    `default:"0"`
}

func (l *syncConflictsCmd) Run(c *command) error {
	return answer(c, "sync.conflicts", func(r cloudsync.ConflictsResult) {
		if len(r.Conflicts) == 0 {
			c.say("No conflicts. When two devices change the same field, both versions wait here.")
			return
		}
		list(c, r.Conflicts, "", []string{"ID", "TABLE", "ITEM", "FIELD", "MINE", "THEIRS"}, func(x cloudsync.ConflictInfo) []string {
			return []string{x.ID.String(), x.TableName, first(x.Title, "(no title)"), x.Field, clipText(string(x.Mine)), clipText(string(x.Theirs))}
		})
		if n := len(r.Conflicts) + l.Offset; n < r.Total {
			c.say("%d of %d. Next: --offset %d", n, r.Total, n)
		}
	})
}

func clipText(s string) string {
	if r := []rune(s); len(r) > 40 {
		return string(r[:40]) + "…"
	}
	return s
}

type syncResolveCmd struct {
	ID    uuid.UUID `arg:"" optional:"" name:"conflict" help:"ID of the conflict."`
	All   bool      `help:"Resolve all open conflicts, instead of one."`
	Table string    `help:"With --all: only the conflicts of a table, such as memories."`
	Keep  string    `required:"" enum:"mine,theirs,both,merged" help:"Which version to keep (${enum}). With both, theirs becomes a second item."`
	Value string    `placeholder:"-" help:"With --keep merged: read the merged value from standard input."`
}

func (s *syncResolveCmd) Run(c *command) error {
	p := cloudsync.ResolveParams{ConflictID: s.ID, All: s.All, TableName: s.Table, Choice: s.Keep}
	if s.All == (s.ID != uuid.Nil) {
		return fault.Invalidf("Give the ID of a conflict, or --all.")
	}
	if s.Keep == "merged" {
		if s.Value != "-" {
			return fault.Invalidf("Provide the merged value on standard input with --value -.")
		}
		text, err := c.secretInput("-", "", "")
		if err != nil {
			return err
		}
		if p.Value = json.RawMessage(text); !json.Valid(p.Value) { // a text needs no quotes
			if p.Value, err = json.Marshal(text); err != nil {
				return err
			}
		}
	}
	return show(c, "sync.resolve", p, func(r cloudsync.ResolveResult) {
		switch {
		case s.All:
			c.say("%d resolved, %d skipped.", r.Resolved, r.Skipped)
		case r.NewRowID != nil:
			c.say("Resolved. The second item is %s.", r.NewRowID)
		default:
			c.say("Resolved.")
		}
		if r.UndoToken == "" {
			return
		}
		c.say("Undo it within ten minutes with: helix sync undo %s", r.UndoToken)
	})
}

type syncUndoCmd struct {
	Token string `arg:"" param:"undoToken" help:"What helix sync resolve printed."`
}

func (*syncUndoCmd) Run(c *command) error {
	return answer(c, "sync.undo_resolve", func(r cloudsync.ResolveResult) {
		if r.Resolved+r.Skipped == 1 {
			c.say("The conflict is open again.")
			return
		}
		c.say("%d conflicts are open again; the items of %d have changed since.", r.Resolved, r.Skipped)
	})
}

type syncDeadLettersCmd struct {
	List  syncDeadListCmd `cmd:"" default:"1" help:"List them."`
	Retry struct {
		ID uuid.UUID `arg:"" name:"item" param:"id" help:"ID of the item."`
	} `cmd:"" help:"Retry one with the next sync." call:"sync.retry_dead_letter" say:"It will be sent again with the next sync."`
	Discard struct {
		ID uuid.UUID `arg:"" name:"item" param:"id" help:"ID of the item."`
	} `cmd:"" help:"Save one to a file and stop trying to sync it." call:"sync.discard_dead_letter" say:"Discarded. A copy is in $path."`
}

type syncDeadListCmd struct{}

func (*syncDeadListCmd) Run(c *command) error {
	return show(c, "sync.dead_letters", struct{}{}, func(r cloudsync.DeadLettersResult) {
		list(c, r.DeadLetters, "Everything is synced.", []string{"ID", "DIRECTION", "TABLE", "ITEM", "REASON"}, func(d cloudsync.DeadLetterInfo) []string {
			return []string{d.ID.String(), d.Direction, d.TableName, first(d.Title, d.RowID.String()), d.Message}
		})
	})
}

type syncDevicesCmd struct{}

func (*syncDevicesCmd) Run(c *command) error {
	return show(c, "sync.devices", struct{}{}, func(r cloudsync.DevicesResult) {
		list(c, r.Devices, "", []string{"ID", "NAME", "PLATFORM", "LAST SEEN", "STATE"}, func(d cloudsync.DeviceInfo) []string {
			state := fmt.Sprintf("%d behind", d.Behind)
			switch {
			case d.RevokedAt != nil:
				state = "removed"
			case d.LastSeen == nil:
				state = "invited"
			case d.Current:
				state = "this device"
			}
			seen := "never"
			if d.LastSeen != nil {
				seen = d.LastSeen.Local().Format(time.DateTime)
			}
			return []string{d.ID.String(), first(d.Name, "(no name)"), d.Platform, seen, state}
		})
	})
}

type syncSelftestCmd struct {
	AdminDSN string `name:"admin-dsn" placeholder:"-" help:"Read the administrator's connection string from standard input. Without it SUPABASE_DB_URL is used."`
}

func (s *syncSelftestCmd) Run(c *command) error {
	dsn, err := c.secretInput(s.AdminDSN, "admin-dsn", "SUPABASE_DB_URL")
	if err != nil {
		return err
	}
	var result cloudsync.SelftestResult
	if _, err := c.call("sync.selftest", cloudsync.SelftestParams{AdminDSN: dsn}, &result); err != nil {
		return err
	}
	if c.JSON {
		if err := json.NewEncoder(c.env.Stdout).Encode(result); err != nil {
			return err
		}
	}
	for _, x := range result.Checks {
		if !x.OK {
			c.say("FAILED %s: %s", x.Name, x.Reason)
		}
	}
	c.say("%d checks passed, %d failed.", result.Passed, result.Failed)
	if result.Failed > 0 {
		return fault.Internalf(fmt.Errorf("%d checks failed", result.Failed), "The hub does not keep users apart. Run helix sync setup with this version, then the self-test again.")
	}
	return nil
}
