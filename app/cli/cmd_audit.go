package cli

import (
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"helix/backend"
	"helix/backend/audit"
	"helix/backend/fault"
)

type auditCmd struct {
	Key    auditKeyCmd    `cmd:"" help:"Print this device's public key, for verifying its exports."`
	List   auditListCmd   `cmd:"" help:"Show the newest entries."`
	Verify auditVerifyCmd `cmd:"" help:"Check the chain and its signatures: exit 0 if intact, 1 if broken, 6 if unreadable."`
	Accept struct {
		Problem string `arg:"" help:"The problem that verify reports."`
	} `cmd:"" help:"Accept an alarm about the end of the log, so that verify no longer reports it. This is recorded." call:"audit.accept" say:"Accepted the alarm in entry $seq."`
	Export struct {
		Path string `arg:"" type:"path"`
	} `cmd:"" help:"Export the log as JSON lines that audit verify --file can check." call:"audit.export" say:"Wrote $entries entries and $segments signed segments to $path."`
}

type auditListCmd struct {
	OfRun   string   `name:"run" param:"runId" help:"Only entries of this run."`
	Subject string   `param:"subjectId" help:"Only entries about this tool or other subject."`
	Action  []string `param:"actions" help:"Only these actions."`
	Limit   int      `default:"50" help:"1 to 100."`
}

func (*auditListCmd) Run(c *command) error {
	return answer(c, "audit.list", func(r audit.ListResult) {
		list(c, r.Entries, "", []string{"SEQ", "TIME", "ACTION", "OUTCOME", "SUBJECT", "DETAILS"}, func(e audit.LogEntry) []string {
			return []string{fmt.Sprint(e.Seq), e.Timestamp.Local().Format(time.DateTime), e.Action, e.Outcome, first(e.Subject.Name, e.Subject.ID), cut(string(e.Details), 60)}
		})
	})
}

type auditVerifyCmd struct {
	File      string `help:"Check an export instead of this installation's log. Works without a running Helix." type:"path" placeholder:"EXPORT"`
	PublicKey string `help:"File with the device's public key: hex or PEM." type:"path" placeholder:"FILE"`
	From      int64  `help:"First entry."`
	To        int64  `help:"Last entry."`
}

func (v *auditVerifyCmd) Run(c *command) error {
	if v.File != "" {
		return v.offline(c)
	}
	p := map[string]any{}
	if v.From > 0 {
		p["from"] = v.From
	}
	if v.To > 0 {
		p["to"] = v.To
	}
	var r audit.Report
	raw, err := c.call("audit.verify", p, &r)
	if err != nil {
		return err
	}
	return c.verdict(r, raw)
}

// offline verifies an export using only the file and a key.
func (v *auditVerifyCmd) offline(c *command) error {
	keys, err := v.keys(c)
	if err != nil {
		return err
	}
	f, err := os.Open(v.File)
	if err != nil {
		return fault.Unavailablef("Couldn't read %s.", filepath.Base(v.File)).WithCause(err)
	}
	defer f.Close()
	r, err := audit.Verify(f, keys)
	if err != nil {
		return fault.Unavailablef("Couldn't read %s as an audit export.", filepath.Base(v.File)).WithCause(err)
	}
	raw, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return c.verdict(r, raw)
}

// keys returns the public keys to trust: the given one, else this installation's own, which is in
// the newest signed head next to the database.
func (v *auditVerifyCmd) keys(c *command) ([]ed25519.PublicKey, error) {
	if v.PublicKey != "" {
		k, err := readPublicKey(v.PublicKey)
		return []ed25519.PublicKey{k}, err
	}
	head, err := audit.ReadHead(filepath.Join(backend.StateDir(c.DataDir), "audit-head"))
	if err != nil {
		c.say("This computer has no signing key yet. Provide the signer's key with --public-key.")
		return nil, nil
	}
	return []ed25519.PublicKey{head.Key()}, nil
}

func (c *command) verdict(r audit.Report, raw json.RawMessage) error {
	if c.JSON {
		if err := c.printJSON(raw); err != nil {
			return err
		}
	} else {
		var generic map[string]any
		if err := json.Unmarshal(raw, &generic); err != nil {
			return err
		}
		if r.OK {
			fmt.Fprintln(c.env.Stdout, "The log is intact.")
		} else {
			fmt.Fprintln(c.env.Stdout, "The log is NOT intact.", r.Message, "Nothing was repaired.")
			if r.Alarm {
				fmt.Fprintf(c.env.Stdout, "If you know why, accept it with: helix audit accept %s\n", r.Problem)
			}
		}
		for _, k := range sortedKeys(generic) {
			if s := fmt.Sprint(generic[k]); s != "" && s != "<nil>" && k != "ok" && k != "message" && k != "alarm" {
				fmt.Fprintf(c.env.Stdout, "  %s: %s\n", k, plain(s))
			}
		}
	}
	if !r.OK {
		return failed{1}
	}
	return nil
}

func readPublicKey(path string) (ed25519.PublicKey, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fault.Unavailablef("Couldn't read the key file.").WithCause(err)
	}
	if block, _ := pem.Decode(b); block != nil && len(block.Bytes) >= ed25519.PublicKeySize {
		return ed25519.PublicKey(block.Bytes[len(block.Bytes)-ed25519.PublicKeySize:]), nil
	}
	k, err := hex.DecodeString(strings.TrimSpace(string(b)))
	if err != nil || len(k) != ed25519.PublicKeySize {
		return nil, fault.Invalidf("The key file doesn't contain an Ed25519 public key in hex or PEM.")
	}
	return k, nil
}

type auditKeyCmd struct{}

func (k *auditKeyCmd) Run(c *command) error {
	return show(c, "audit.device_key", struct{}{}, func(r struct{ PublicKey string }) {
		fmt.Fprintln(c.env.Stdout, r.PublicKey)
	})
}
