package cli

import (
	"fmt"
	"os"
	"strings"
	"time"

	"helix/backend/fault"
	"helix/backend/storage"
)

type backupCmd struct {
	Create backupCreateCmd `cmd:"" help:"Create a backup while Helix keeps running."`
	List   backupListCmd   `cmd:"" help:"List backups."`
	Verify backupVerifyCmd `cmd:"" help:"Read a backup and verify every byte."`
}

type backupCreateCmd struct {
	Path           string `arg:"" optional:"" type:"path" help:"Default: the backups folder."`
	NoBlobs        bool   `help:"Leave out audio files and modules."`
	PassphraseFile string `type:"path" help:"Encrypt the key into the backup with the passphrase in this file, so that it opens on other computers."`
}

func (b *backupCreateCmd) Run(c *command) error {
	p := map[string]any{"blobs": !b.NoBlobs}
	setIf(p, "path", b.Path)
	pass, err := passphrase(b.PassphraseFile)
	if err != nil {
		return err
	}
	setIf(p, "passphrase", pass)
	if pass == "" {
		c.say("Without --passphrase-file, secrets in this backup open only on this computer.")
	}
	return show(c, "storage.backup", p, func(r storage.BackupResult) {
		fmt.Fprintln(c.env.Stdout, r.Path)
		c.say("%s, sha256 %s", size(r.SizeBytes), r.SHA256)
	})
}

func passphrase(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return "", fault.Invalidf("Couldn't read the passphrase file.").WithCause(err)
	}
	return strings.TrimRight(string(b), "\r\n"), nil
}

type backupListCmd struct{}

func (b *backupListCmd) Run(c *command) error {
	return show(c, "storage.backups", struct{}{}, func(r storage.BackupsResult) {
		list(c, r.Backups, "No backups yet. Create one with `helix backup create`.", []string{"MADE", "KIND", "SIZE", "PATH"}, func(b storage.BackupInfo) []string {
			return []string{b.CreatedAt.Local().Format(time.DateTime), b.Kind, size(b.SizeBytes), b.Path}
		})
	})
}

type backupVerifyCmd struct {
	Path string `arg:"" type:"path"`
}

func (b *backupVerifyCmd) Run(c *command) error {
	return c.problems("storage.verify_backup", map[string]any{"path": b.Path}, "The backup is complete and unchanged.")
}

// checked is a result that tells what is wrong.
type checked struct {
	OK       bool
	Problems []any
}

// problems calls a method that returns checked and exits with 1 if it isn't OK.
func (c *command) problems(method string, params any, good string) error {
	return shown(c, method, params, func(r checked) {
		if r.OK {
			fmt.Fprintln(c.env.Stdout, good)
		}
		for _, p := range r.Problems {
			fmt.Fprintln(c.env.Stdout, plain(fmt.Sprint(p)))
		}
	}, func(r checked) int { return failIf(!r.OK, 1) })
}

type restoreCmd struct {
	Path           string `arg:"" type:"path"`
	DryRun         bool   `help:"Check everything and show what would change."`
	Yes            bool   `help:"Don't ask for confirmation."`
	PassphraseFile string `type:"path" help:"Passphrase of the backup."`
}

func (r *restoreCmd) Run(c *command) error {
	pass, err := passphrase(r.PassphraseFile)
	if err != nil {
		return err
	}
	p := map[string]any{"path": r.Path, "dryRun": r.DryRun}
	setIf(p, "passphrase", pass)
	if !r.DryRun {
		if err := c.confirm(r.Yes, "This replaces the current data with the backup. The current data is kept aside."); err != nil {
			return err
		}
	}
	return show(c, "storage.restore", p, c.printRestored)
}

func (c *command) printRestored(r storage.RestoreResult) {
	list(c, sortedKeys(r.Rows), "", []string{"TABLE", "ROWS"}, func(t string) []string {
		return []string{t, fmt.Sprint(r.Rows[t])}
	})
	c.kept(r.ReplacedPath)
}

func (c *command) kept(replaced string) {
	if replaced != "" {
		c.say("The previous data is kept in %s.", replaced)
	}
}

type exportCmd struct {
	Dir    string   `arg:"" type:"path"`
	Tables []string `help:"Only these tables."`
}

type importCmd struct {
	Dir    string `arg:"" type:"path"`
	DryRun bool   `param:"dryRun" help:"Only count the rows."`
}

type dbCmd struct {
	Check    dbCheckCmd    `cmd:"" help:"Check the database and its files."`
	Migrate  dbMigrateCmd  `cmd:"" help:"Allow this version to migrate again after a rollback."`
	Rollback dbRollbackCmd `cmd:"" help:"Go back to the copy made before a migration."`
	Salvage  dbSalvageCmd  `cmd:"" help:"Copy the readable rows of a damaged database into a new one."`
	StartNew dbStartNewCmd `cmd:"" help:"Start with an empty database when the current one is missing or damaged."`
	Prune    struct {
		DryRun bool `param:"dryRun" help:"Only count the rows."`
	} `cmd:"" help:"Remove history that has passed its retention time." call:"storage.prune"`
}

type dbCheckCmd struct {
	Full bool `help:"Also check every index and every stored file."`
}

func (d *dbCheckCmd) Run(c *command) error {
	return c.problems("storage.check", map[string]any{"full": d.Full}, "No problems found.")
}

type dbRollbackCmd struct {
	Snapshot string `arg:"" optional:"" help:"Default: the newest."`
	Yes      bool   `help:"Don't ask for confirmation."`
}

func (d *dbRollbackCmd) Run(c *command) error {
	if err := c.confirm(d.Yes, "This rolls the database back to the copy from before the migration. The current one is kept."); err != nil {
		return err
	}
	p := map[string]any{}
	setIf(p, "snapshot", d.Snapshot)
	return show(c, "storage.rollback", p, c.printRestored)
}

type dbSalvageCmd struct {
	AcceptLoss bool `help:"Use the salvaged data even if rows are missing, without asking."`
}

func (d *dbSalvageCmd) Run(c *command) error {
	var r storage.SalvageResult
	raw, err := c.call("storage.salvage", map[string]any{"acceptLoss": d.AcceptLoss}, &r)
	if err != nil {
		return err
	}
	if c.JSON {
		if err := c.printJSON(raw); err != nil {
			return err
		}
	} else {
		list(c, r.Tables, "", []string{"TABLE", "KEPT", "LOST"}, func(t storage.SalvageRows) []string {
			return []string{t.Table, fmt.Sprint(t.Kept), fmt.Sprint(t.Lost)}
		})
		if r.LostPages > 0 {
			c.say("%d pages of the file couldn't be read. They may have contained more rows.", r.LostPages)
		}
		c.say("The damaged files are kept in %s.", r.KeptPath)
	}
	if r.Applied {
		return nil
	}
	if c.JSON || !isTerminal(c.env.Stdin) {
		c.say("Data is missing, so the database was not replaced. Use --accept-loss to continue with the salvaged data, or restore a backup.")
		return failed{1}
	}
	if err := c.confirm(false, "Data is missing. Continue with the salvaged data? A backup may hold more."); err != nil {
		return err
	}
	_, err = c.call("storage.salvage", map[string]any{"acceptLoss": true}, nil)
	return err
}

type dbStartNewCmd struct {
	Yes bool `help:"Don't ask for confirmation."`
}

func (d *dbStartNewCmd) Run(c *command) error {
	if err := c.confirm(d.Yes, "Helix starts with an empty database. The current files are moved aside and kept for 30 days."); err != nil {
		return err
	}
	return show(c, "storage.start_new", struct{}{}, func(r storage.StartNewResult) { c.kept(r.ReplacedPath) })
}

type keysCmd struct {
	Status         struct{}      `cmd:"" help:"Show where the key is stored." call:"keys.status"`
	Rotate         struct{}      `cmd:"" help:"Rotate the data key. Rows are re-encrypted in the background." call:"keys.rotate"`
	ExportRecovery keysExportCmd `cmd:"" help:"Print the recovery code, once. Write it down."`
	ImportRecovery keysImportCmd `cmd:"" help:"Read a recovery code from standard input."`
}

type keysExportCmd struct{}

func (k *keysExportCmd) Run(c *command) error {
	return show(c, "keys.export_recovery", struct{}{}, func(r struct{ Code string }) {
		fmt.Fprintln(c.env.Stdout, r.Code)
		c.say("Anyone with this code can decrypt your data. It is not stored anywhere.")
	})
}

type keysImportCmd struct{}

func (k *keysImportCmd) Run(c *command) error {
	code, err := c.secret("Recovery code: ")
	if err != nil {
		return err
	}
	return c.raw("keys.import_recovery", map[string]any{"code": code})
}

type secretsCmd struct {
	List   struct{}      `cmd:"" default:"withargs" help:"List names." call:"secrets.list"`
	Set    secretsSetCmd `cmd:"" help:"Store a value read from standard input."`
	Delete struct {
		Name string `arg:""`
	} `cmd:"" aliases:"rm,remove" help:"Delete a secret." call:"secrets.delete"`
}

type secretsSetCmd struct {
	Name string `arg:""`
}

func (s *secretsSetCmd) Run(c *command) error {
	v, err := c.secret("Value: ")
	if err != nil {
		return err
	}
	return c.raw("secrets.set", map[string]any{"name": s.Name, "value": v})
}
