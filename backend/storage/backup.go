package storage

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"golang.org/x/crypto/scrypt"

	"helix/backend/fault"
)

// Manifest is manifest.json of a backup.
type Manifest struct {
	Format        int            `json:"format"`
	AppVersion    string         `json:"appVersion"`
	SchemaVersion int64          `json:"schemaVersion"`
	CreatedAt     time.Time      `json:"createdAt"`
	UserID        uuid.UUID      `json:"userId"`
	Epoch         string         `json:"epoch"`
	Files         []ManifestFile `json:"files"`
}

// ManifestFile is one file of a backup besides the manifest.
type ManifestFile struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
}

// Names of the entries in a backup.
const (
	backupFormat = 1
	nameManifest = "manifest.json"
	nameDB       = "helix.db"
	nameKey      = "root-key.json"
	nameConfig   = "config.toml"
	dirBlobs     = "blobs/"
	dirUser      = "user/"
)

func (m *Manifest) has(name string) bool {
	return slices.ContainsFunc(m.Files, func(f ManifestFile) bool { return f.Path == name })
}

func (m *Manifest) hasBlobs() bool {
	return slices.ContainsFunc(m.Files, func(f ManifestFile) bool { return strings.HasPrefix(f.Path, dirBlobs) })
}

// wrappedKey is root-key.json: the root key under a key derived from the passphrase.
type wrappedKey struct {
	KDF     string `json:"kdf"` // always "scrypt"
	N       int    `json:"n"`
	R       int    `json:"r"`
	P       int    `json:"p"`
	Salt    []byte `json:"salt"`
	Wrapped []byte `json:"wrapped"` // nonce ‖ ciphertext ‖ tag, AES-256-GCM
}

const wrapAAD = "helix backup root key"

// scryptN is the scrypt cost parameter N for passphrases, as documented in the manual.
const scryptN = 1 << 17

// wrapRoot encrypts root under passphrase, using scrypt with N = n, r = 8 and p = 1.
func wrapRoot(root []byte, passphrase string, n int) (*wrappedKey, error) {
	w := &wrappedKey{KDF: "scrypt", N: n, R: 8, P: 1, Salt: make([]byte, 16)}
	if _, err := rand.Read(w.Salt); err != nil {
		return nil, err
	}
	aead, err := w.aead(passphrase)
	if err != nil {
		return nil, err
	}
	nonce := make([]byte, nonceSize)
	if _, err := rand.Read(nonce); err != nil {
		return nil, err
	}
	w.Wrapped = aead.Seal(nonce, nonce, root, []byte(wrapAAD))
	return w, nil
}

func (w *wrappedKey) aead(passphrase string) (interface {
	Seal(dst, nonce, plaintext, additionalData []byte) []byte
	Open(dst, nonce, ciphertext, additionalData []byte) ([]byte, error)
}, error) {
	// A file from outside must not choose how much memory we use: 2^20 · 8 · 128 = 1 GiB.
	if w.KDF != "scrypt" || w.N > 1<<20 || w.R > 8 || w.P > 4 {
		return nil, fault.Invalidf("The key in this backup uses an unknown format.")
	}
	key, err := scrypt.Key([]byte(passphrase), w.Salt, w.N, w.R, w.P, 32)
	if err != nil {
		return nil, fault.Invalidf("The key in this backup uses an unknown format.").WithCause(err)
	}
	return newAEAD(key)
}

// wrongPassphraseDelay slows down guessing.
const wrongPassphraseDelay = time.Second

// open returns the root key. A wrong passphrase is Denied, after a second.
func (w *wrappedKey) open(ctx context.Context, passphrase string) ([]byte, error) {
	aead, err := w.aead(passphrase)
	if err != nil {
		return nil, err
	}
	if len(w.Wrapped) > nonceSize {
		if root, err := aead.Open(nil, w.Wrapped[:nonceSize], w.Wrapped[nonceSize:], []byte(wrapAAD)); err == nil {
			return root, nil
		}
	}
	select {
	case <-time.After(wrongPassphraseDelay):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return nil, fault.Deniedf("Wrong passphrase. Nothing was changed.")
}

// Backup writes the database, blobs, settings and the user's files to one zip file while Helix
// keeps working. It reads the file back and verifies it before it returns.
func (s *Service) Backup(ctx context.Context, p BackupParams) (_ BackupResult, err error) {
	ctx, done, err := s.exclusive(ctx, "backup")
	if err != nil {
		return BackupResult{}, err
	}
	defer func() { done(err) }()
	res, err := s.backup(ctx, p, "helix-")
	if err != nil {
		return res, err
	}
	return res, s.note(ctx, "data.export", map[string]any{"kind": "backup", "sha256": res.SHA256, "sizeBytes": res.SizeBytes, "withKey": p.Passphrase != ""})
}

func (s *Service) backup(ctx context.Context, p BackupParams, prefix string) (res BackupResult, err error) {
	target, err := s.backupTarget(p.Path, prefix)
	if err != nil {
		return res, err
	}
	withBlobs := p.Blobs == nil || *p.Blobs
	room, err := diskSpace(filepath.Dir(target))
	if err != nil {
		return res, err
	}
	need := fileSize(s.db.path) + fileSize(s.db.path+"-wal")
	if withBlobs {
		need += dirSize(s.db.blobs.dir)
	}
	if room.Free < need+1<<20 {
		return res, fault.Limitf("The backup needs %d MB and there are %d MB free. Nothing was changed.", need>>20, room.Free>>20)
	}
	rep := s.progress(ctx, "backup")
	rep.step("prepare", 0, need)
	var key *wrappedKey
	if p.Passphrase != "" {
		ring := s.db.keys.ring.Load()
		if ring == nil {
			return res, errLocked()
		}
		if key, err = wrapRoot(ring.root, p.Passphrase, s.o.scryptN); err != nil {
			return res, err
		}
	}
	still, err := s.db.freeze(ctx)
	if err != nil {
		return res, dbError(ctx, err)
	}
	partial := target + ".partial"
	defer func() {
		if err != nil {
			err = errors.Join(err, removeIf(partial))
		}
	}()
	sum, m, err := s.writeBackup(ctx, partial, still, key, withBlobs, rep, need)
	still.release()
	if err != nil {
		return res, fullDisk(err)
	}
	crashPoint("backup.written")
	rep.step("verify", 0, need)
	if err := verifyWritten(ctx, partial, m, func(n int64) { rep.step("verify", n, need) }); err != nil {
		return res, err
	}
	if err := os.Rename(partial, target); err != nil {
		return res, err
	}
	crashPoint("backup.renamed")
	if err := syncDir(filepath.Dir(target)); err != nil {
		return res, err
	}
	res = BackupResult{Path: target, SizeBytes: fileSize(target), SHA256: hex.EncodeToString(sum)}
	if err := s.db.setMeta(ctx, "last_backup_at", m.CreatedAt.Format(time.RFC3339Nano)); err != nil {
		s.log.Warn("remember the time of the backup", "err", err)
	}
	return res, nil
}

// backupTarget returns the path of the file to write: p itself, a new name in p when p is a folder,
// or a new name in the backups folder when p is empty.
func (s *Service) backupTarget(p, prefix string) (string, error) {
	if p == "" {
		if err := os.MkdirAll(s.o.BackupDir, 0o700); err != nil {
			return "", err
		}
		return freshName(s.o.BackupDir, prefix, time.Now(), ".zip"), nil
	}
	if !filepath.IsAbs(p) {
		return "", fault.Invalidf("The path of the backup must be absolute.")
	}
	fi, err := os.Stat(p)
	switch {
	case err == nil && fi.IsDir():
		return freshName(p, prefix, time.Now(), ".zip"), nil
	case err == nil:
		return "", fault.Conflictf("A file with that name already exists. Nothing was changed.")
	case !errors.Is(err, fs.ErrNotExist):
		return "", fault.Invalidf("The path of the backup cannot be used.").WithCause(err)
	}
	if !exists(filepath.Dir(p)) {
		return "", fault.Invalidf("The folder for the backup does not exist.")
	}
	return p, nil
}

// writeBackup fills the file and makes it durable. It returns the hash of the whole file.
func (s *Service) writeBackup(ctx context.Context, file string, still *frozen, key *wrappedKey, withBlobs bool, rep *reporter, total int64) (sum []byte, m *Manifest, err error) {
	if m, err = s.newManifest(ctx, still.conn); err != nil {
		return nil, nil, err
	}
	out, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	w := newZipWriter(ctx, out, m, func(n int64) { rep.step("write", n, total) })
	defer w.stop()
	if err := w.add(nameDB, io.NewSectionReader(still.file, 0, still.size), false); err != nil {
		return nil, nil, err
	}
	crashPoint("backup.db")
	if withBlobs {
		if err := s.addBlobs(w); err != nil {
			return nil, nil, err
		}
	}
	if s.o.ConfigFile != "" && exists(s.o.ConfigFile) {
		if err := w.addFile(nameConfig, s.o.ConfigFile); err != nil {
			return nil, nil, err
		}
	}
	if err := s.addUserFiles(w); err != nil {
		return nil, nil, err
	}
	if key != nil {
		b, err := json.Marshal(key)
		if err != nil {
			return nil, nil, err
		}
		if err := w.add(nameKey, strings.NewReader(string(b)), true); err != nil {
			return nil, nil, err
		}
	}
	if sum, err = w.finish(); err != nil {
		return nil, nil, err
	}
	return sum, m, out.Sync()
}

func (s *Service) newManifest(ctx context.Context, conn *sql.Conn) (*Manifest, error) {
	m := &Manifest{Format: backupFormat, AppVersion: s.version(), CreatedAt: time.Now().UTC().Truncate(time.Microsecond), UserID: s.db.LocalUser().ID, Files: []ManifestFile{}}
	var epoch []byte
	if err := conn.QueryRowContext(ctx, `SELECT (SELECT max(version_id) FROM goose_db_version WHERE is_applied = 1), (SELECT epoch FROM sync_local)`).Scan(&m.SchemaVersion, &epoch); err != nil {
		return nil, err
	}
	m.Epoch = hex.EncodeToString(epoch)
	return m, nil
}

func (s *Service) addBlobs(w *zipWriter) error {
	return s.db.blobs.Each(func(ref Ref, _ time.Time) error {
		name := ref.String()
		err := w.addFile(dirBlobs+name[:2]+"/"+name[2:], s.db.blobs.path(ref.SHA256))
		if errors.Is(err, fs.ErrNotExist) { // pruned a moment ago: no row refers to it
			return nil
		}
		return err
	})
}

// addUserFiles adds the regular files below the user's folder. Links are left out because they may
// point anywhere.
func (s *Service) addUserFiles(w *zipWriter) error {
	if s.o.UserDir == "" || !exists(s.o.UserDir) {
		return nil
	}
	return filepath.WalkDir(s.o.UserDir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		rel, err := filepath.Rel(s.o.UserDir, p)
		if err != nil {
			return err
		}
		return w.addFile(path.Join(dirUser, filepath.ToSlash(rel)), p)
	})
}

// verifyWritten reads a finished backup back and compares every hash.
func verifyWritten(ctx context.Context, file string, want *Manifest, progress func(int64)) error {
	z, err := openBackup(file)
	if err != nil {
		return fmt.Errorf("read the backup back: %w", err)
	}
	defer z.close()
	if len(z.manifest.Files) != len(want.Files) {
		return fault.Internalf(errors.New("manifest differs"), "Couldn't verify the backup, so it was discarded.")
	}
	var n int64
	for _, f := range z.manifest.Files {
		if err := z.copyTo(ctx, f, io.Discard, func(d int64) { progress(n + d) }); err != nil {
			return err
		}
		n += f.Size
	}
	return nil
}

func fullDisk(err error) error {
	if isFull(err) {
		return fault.Limitf(msgFull).WithCause(err)
	}
	return err
}
