package skills

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/google/uuid"

	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/jcs"
	"helix/backend/lifecycle"
	"helix/backend/skills/definition"
	"helix/backend/storage"
)

// The format of share files, *.helixskill.json.
const (
	shareFormat  = "helix-skill"
	shareVersion = 1
	shareSuffix  = ".helixskill.json"
	maxShareFile = 8 << 20
	maxShareTool = 100
)

// shareFile is a skill that travels. It holds no ids of users or tools, no grants, no secrets
// and no history. Its text is canonical JSON (RFC 8785); SHA256 is over the text without
// sha256 and signature, and the signature over that sum.
type shareFile struct {
	Format        string            `json:"format"`
	FormatVersion int               `json:"formatVersion"`
	Skill         json.RawMessage   `json:"skill"`
	Dependencies  []Dependency      `json:"dependencies"`
	Tools         []json.RawMessage `json:"tools,omitempty"`
	SHA256        string            `json:"sha256,omitempty"`
	Signature     *shareSignature   `json:"signature,omitempty"`
}

// shareSignature is Ed25519 by the key of the device that exported.
type shareSignature struct {
	DeviceKey string `json:"deviceKey"` // base64 of 32 bytes
	Sig       string `json:"sig"`       // base64
}

// sum is the hash that a file must name.
func (f shareFile) sum() (string, error) {
	f.SHA256, f.Signature = "", nil
	text, err := f.text()
	if err != nil {
		return "", err
	}
	h := sha256.Sum256(text)
	return hex.EncodeToString(h[:]), nil
}

func (f shareFile) text() (json.RawMessage, error) {
	if f.Dependencies == nil {
		f.Dependencies = []Dependency{}
	}
	raw, err := json.Marshal(f)
	if err != nil {
		return nil, err
	}
	return jcs.Canonicalize(raw)
}

// signedSum is the text under a signature.
func signedSum(sum string) []byte { return []byte("helix-skill/1\x00" + sum) }

// Export makes the share file of a skill of the caller, signed with this device's key unless
// that is locked. Tools are named, not identified: an id means nothing elsewhere.
func (s *Service) Export(ctx context.Context, p ExportParams) (ExportResult, error) {
	var r *row
	err := s.db.Read(ctx, func(tx *storage.Tx) (err error) { r, err = ownSkill(tx, p.SkillID); return err })
	if err != nil {
		return ExportResult{}, err
	}
	c := s.catalog(ctx)
	f := &shareFile{Format: shareFormat, FormatVersion: shareVersion}
	sk := r.skill()
	sk.SkillID, sk.IsEnabled, sk.Visibility = "", nil, ""
	if sk.Body, err = portable(&sk.Body, c); err != nil {
		return ExportResult{}, err
	}
	if f.Skill, err = sk.Text(); err != nil {
		return ExportResult{}, err
	}
	deps, err := dependencies(&sk.Body, c)
	if err != nil {
		return ExportResult{}, err
	}
	var ids []string
	for _, d := range deps {
		f.Dependencies = append(f.Dependencies, d.Dependency)
		if d.ToolType == definition.Custom && d.id != "" {
			ids = append(ids, d.id)
		}
	}
	if p.IncludeTools && len(ids) > 0 {
		sharer, ok := s.o.Callables.Provider(callable.Tool).(callable.Portable)
		if !ok {
			return ExportResult{}, fault.Unavailablef("Tools cannot be put into a share file here; export the skill without them.")
		}
		if f.Tools, err = sharer.Export(ctx, ids); err != nil {
			return ExportResult{}, err
		}
	}
	if f.SHA256, err = f.sum(); err != nil {
		return ExportResult{}, err
	}
	if f.Signature, err = s.signSum(f.SHA256); err != nil {
		return ExportResult{}, err
	}
	text, err := f.text()
	return ExportResult{File: text, Filename: filename(r.name)}, err
}

func (s *Service) signSum(sum string) (*shareSignature, error) {
	raw, err := s.db.Sign(signedSum(sum))
	if fault.Is(err, fault.Unavailable) {
		return nil, nil // the key is locked: the skill travels unsigned
	}
	if err != nil {
		return nil, err
	}
	return &shareSignature{
		DeviceKey: lifecycle.KeyText(s.db.Device().PublicKey), Sig: base64.StdEncoding.EncodeToString(raw),
	}, nil
}

var notInNames = regexp.MustCompile(`[^\p{L}\p{N}._-]+`)

// filename makes a name for the file that every system takes.
func filename(name string) string {
	base := strings.Trim(notInNames.ReplaceAllString(name, "-"), "-.")
	if base == "" {
		base = "skill"
	}
	return lifecycle.Cut(base, 60) + shareSuffix
}

// portable is a body whose steps name what they call instead of giving its id.
func portable(b *definition.Body, c definition.Catalog) (definition.Body, error) {
	text, err := b.Text()
	if err != nil {
		return definition.Body{}, err
	}
	out, err := definition.Parse(text)
	if err != nil {
		return definition.Body{}, err
	}
	var failed error
	out.Walk(func(_ string, st *definition.Step) {
		if st.ToolID == "" || failed != nil {
			return
		}
		found, err := c.Find(st.ToolType, st.ToolID, "")
		if err != nil {
			failed = err
		} else if len(found) == 1 {
			st.ToolName = found[0].Name
		}
		if st.ToolName != "" {
			st.ToolID = ""
		}
	})
	return *out, failed
}

// dependency is one with the id that it has here.
type dependency struct {
	Dependency
	id string
}

// dependencies lists what steps call, sorted by kind and name. Built-ins come with Helix and
// have no hash.
func dependencies(b *definition.Body, c definition.Catalog) ([]dependency, error) {
	var out []dependency
	var failed error
	b.Walk(func(_ string, st *definition.Step) {
		if !st.ToolType.Calls() || failed != nil || st.ToolName == "" && st.ToolID == "" {
			return
		}
		d := dependency{Dependency: Dependency{ToolType: st.ToolType, Name: st.ToolName}}
		found, err := c.Find(st.ToolType, st.ToolID, st.ToolName)
		if err != nil {
			failed = err
			return
		}
		if len(found) == 1 {
			d.Name, d.id = found[0].Name, found[0].ID
			if st.ToolType != definition.Builtin {
				d.DefinitionHash = found[0].Hash
			}
		}
		if d.Name != "" {
			out = append(out, d)
		}
	})
	slices.SortFunc(out, func(a, b dependency) int {
		return strings.Compare(string(a.ToolType)+"\x00"+a.Name, string(b.ToolType)+"\x00"+b.Name)
	})
	return slices.CompactFunc(out, func(a, b dependency) bool { return a.ToolType == b.ToolType && a.Name == b.Name }), failed
}

// signer returns who signed a file: "unsigned", or the fingerprint of the key, and whether the
// user trusts it. A signature that does not fit is Invalid.
func (s *Service) signer(ctx context.Context, f *shareFile) (who string, trusted bool, err error) {
	if f.Signature == nil {
		return "unsigned", false, nil
	}
	key, kerr := base64.StdEncoding.DecodeString(f.Signature.DeviceKey)
	sig, serr := base64.StdEncoding.DecodeString(f.Signature.Sig)
	if kerr != nil || serr != nil || len(key) != ed25519.PublicKeySize || !ed25519.Verify(key, signedSum(f.SHA256), sig) {
		return "", false, fault.Invalidf("The signature of the file does not fit: the file has been changed, or it was signed by somebody else than it says. Nothing was imported.")
	}
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		_, trusted, err = lifecycle.KnownKey(tx, s.db, identity.UserID(ctx), key)
		return err
	})
	return lifecycle.Fingerprint(key), trusted, err
}

// readShare reads a share file and refuses one that is not whole.
func readShare(raw json.RawMessage) (*shareFile, error) {
	if len(raw) > maxShareFile {
		return nil, fault.Limitf("The file has %d bytes; %d are allowed.", len(raw), maxShareFile)
	}
	text, err := jcs.Canonicalize(raw) // also refuses members that are there twice
	if err != nil {
		return nil, fault.Invalidf("The file is not JSON as share files have it.").WithCause(err)
	}
	f := &shareFile{}
	if err := json.Unmarshal(text, f); err != nil || f.Format != shareFormat {
		return nil, fault.Invalidf("This is not a file of a Helix skill.")
	}
	if f.FormatVersion != shareVersion {
		return nil, fault.Invalidf("The file has format version %d; this version of Helix reads %d. A newer Helix may read it.", f.FormatVersion, shareVersion)
	}
	var whole map[string]json.RawMessage
	if err := json.Unmarshal(text, &whole); err != nil {
		return nil, err
	}
	delete(whole, "sha256")
	delete(whole, "signature")
	plain, err := json.Marshal(whole)
	if err != nil {
		return nil, err
	}
	if plain, err = jcs.Canonicalize(plain); err != nil {
		return nil, err
	}
	if h := sha256.Sum256(plain); f.SHA256 != hex.EncodeToString(h[:]) {
		return nil, fault.Invalidf("The file has been changed or damaged: its sum does not fit. Nothing was imported.")
	}
	if len(f.Tools) > maxShareTool {
		return nil, fault.Limitf("The file has %d tools; %d are allowed.", len(f.Tools), maxShareTool)
	}
	return f, nil
}

// sameName returns the caller's skill of a name, or nil.
func (s *Service) sameName(tx *storage.Tx, name string) (*row, error) {
	it, err := s.kind.Named(tx, identity.UserID(tx.Context()), name, uuid.Nil)
	if err != nil || it == nil {
		return nil, err
	}
	return ownSkill(tx, it.ID)
}
