package tools

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/lifecycle"
	"helix/backend/safehttp"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"
	"helix/backend/testkit"
)

func (b *bundle) export(t testing.TB, sign bool, ids ...uuid.UUID) Bundle {
	t.Helper()
	r, err := b.Export(b.ctx, ExportParams{ToolIDs: ids, Sign: &sign})
	if err != nil {
		t.Fatal(err)
	}
	return r.Bundle
}

func (b *bundle) review2(t testing.TB, raw json.RawMessage, on lifecycle.OnConflict) ImportResult {
	t.Helper()
	r, err := b.Import(b.ctx, ImportParams{Bundle: raw, OnConflict: on})
	if err != nil {
		t.Fatalf("review: %v", err)
	}
	if len(r.Tools) != 0 {
		t.Fatalf("a dry run added %d tools", len(r.Tools))
	}
	return r
}

func (b *bundle) add2(t testing.TB, raw json.RawMessage, on lifecycle.OnConflict) ImportResult {
	t.Helper()
	b.review2(t, raw, on)
	r, err := b.Import(b.ctx, ImportParams{Bundle: raw, OnConflict: on, DryRun: ptr(false)})
	if err != nil {
		t.Fatalf("import: %v", err)
	}
	return r
}

func TestBundleRoundTrip(t *testing.T) {
	t.Parallel()
	a, b := setup(t), setup(t)
	tool := a.create(t, CreateParams{Name: "Traveller", Code: "return await helix.state.get('x')", Description: "<b>hi</b> & bye", Capabilities: []string{"state", "secret(KEY)"},
		Tags: []string{"x"}, Icon: "i", Samples: []Sample{{Name: "s", Params: json.RawMessage(`{"a":1}`)}}})
	tool = a.update(t, tool, `{"code":"return 1 + (await helix.state.get('x') ?? 0)"}`).Tool
	if _, err := a.SecretSet(a.ctx, SecretSetParams{Name: "KEY", Value: "planted-secret-value", Hosts: []string{"api.example.com"}}); err != nil {
		t.Fatal(err)
	}
	_, _ = a.Execute(a.ctx, ExecuteParams{ToolID: &tool.ID})
	a.allow(t, tool, "always")
	a.run(t, tool, `{"p":"planted-parameter"}`)
	if err := a.db.Write(a.ctx, func(tx *storage.Tx) error {
		_, err := tx.Exec(`INSERT INTO custom_tool_state VALUES (?, ?, 'x', '"planted-state"', 10, 1)`, tool.ID, a.db.LocalUser().ID)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	r, err := a.Export(a.ctx, ExportParams{ToolIDs: []uuid.UUID{tool.ID}, IncludeHistory: true})
	if err != nil {
		t.Fatal(err)
	}
	raw := lifecycle.Text(r.Bundle)
	for _, never := range []string{"planted-", a.db.LocalUser().ID.String(), tool.ID.String(), "grant", "usage"} {
		if strings.Contains(string(raw), never) {
			t.Errorf("the bundle holds %q", never)
		}
	}
	res := b.review2(t, raw, lifecycle.Rename)
	it := res.Items[0]
	if it.Action != "create" || it.DefinitionHash != tool.DefinitionHash || it.Signature.State != lifecycle.SignatureUnknown || !slices.Equal(it.RequestedCapabilities, tool.Capabilities) || it.Definition.Description != "<b>hi</b> & bye" {
		t.Fatalf("review %+v", it)
	}
	got := b.add2(t, raw, lifecycle.Rename).Tools[0]
	if got.DefinitionHash != tool.DefinitionHash || got.IsEnabled || got.Visibility != Private || got.Origin != OriginImport || got.Version != "1.0.1" || got.Author != a.db.LocalUser().DisplayName {
		t.Fatalf("imported %+v", got)
	}
	v, err := b.Versions(b.ctx, VersionsParams{ToolID: got.ID})
	if err != nil || v.Total != 2 {
		t.Errorf("history %+v %v", v, err)
	}
}

func TestImportIsTwoSteps(t *testing.T) {
	t.Parallel()
	a, b := setup(t), setup(t)
	one := a.create(t, CreateParams{Name: "One", Code: "return 1"})
	two := a.create(t, CreateParams{Name: "Two", Code: "return 2"})
	raw := lifecycle.Text(a.export(t, true, one.ID, two.ID))
	_, err := b.Import(b.ctx, ImportParams{Bundle: raw, DryRun: ptr(false)})
	wantKind(t, err, fault.Conflict)
	b.review2(t, raw, lifecycle.Rename)
	changed := json.RawMessage(strings.Replace(string(lifecycle.Text(a.export(t, false, one.ID, two.ID))), "return 2", "return 3", 1))
	_, err = b.Import(b.ctx, ImportParams{Bundle: changed, DryRun: ptr(false)})
	wantKind(t, err, fault.Conflict)
	if l, _ := b.List(b.ctx, ListParams{}); l.Total != 0 {
		t.Fatalf("%d tools after conflicts", l.Total)
	}
	b.create(t, CreateParams{Name: "one", Code: "return 7"})
	r := b.review2(t, raw, lifecycle.Rename)
	if r.Items[0].Action != "rename" || r.Items[0].NewName != "One 2" || r.Items[1].Action != "create" {
		t.Errorf("rename %+v", r.Items)
	}
	if r = b.review2(t, raw, lifecycle.Skip); r.Items[0].Action != "skip" {
		t.Errorf("skip %+v", r.Items[0])
	}
	r = b.add2(t, raw, lifecycle.Replace)
	if r.Items[0].Action != "replace" || r.Items[0].Diff == nil || !strings.Contains(r.Items[0].Diff.Code, "+return 1") || len(r.Tools) != 2 || r.Tools[0].IsEnabled || r.Tools[0].Version != "1.0.1" {
		t.Errorf("replace %+v %+v", r.Items[0], r.Tools[0])
	}
	_, err = b.Import(b.ctx, ImportParams{})
	wantKind(t, err, fault.Invalid)
}

func TestBadBundles(t *testing.T) {
	t.Parallel()
	b := setup(t)
	good := BundleTool{Definition: BundleDefinition{Name: "N", Code: "return 1"}, Version: "1.0.0"}
	with := func(change func(*Bundle)) json.RawMessage {
		x := Bundle{Format: bundleFormat, FormatVersion: 1, Tools: []BundleTool{good}}
		change(&x)
		return lifecycle.Text(x)
	}
	deep := strings.Repeat("[", 60) + strings.Repeat("]", 60)
	for name, c := range map[string]struct {
		raw   json.RawMessage
		item  int
		field string
	}{
		"not JSON":           {json.RawMessage(`{`), -1, ""},
		"another thing":      {json.RawMessage(`{"a":1}`), -1, ""},
		"a list":             {json.RawMessage(`[]`), -1, ""},
		"format":             {json.RawMessage(`{"format":"zip"}`), -1, "format"},
		"format version":     {with(func(b *Bundle) { b.FormatVersion = 2 }), -1, "formatVersion"},
		"no tools":           {with(func(b *Bundle) { b.Tools = nil }), -1, "tools"},
		"101 tools":          {with(func(b *Bundle) { b.Tools = slices.Repeat(b.Tools, 101) }), -1, "tools"},
		"two equal names":    {with(func(b *Bundle) { x := good; x.Definition.Name = "n"; b.Tools = append(b.Tools, x) }), 1, "name"},
		"duplicate keys":     {json.RawMessage(`{"format":"helix-tools","format":"helix-tools","formatVersion":1,"tools":[]}`), -1, ""},
		"5 MiB + 1":          {json.RawMessage(`{"format":"` + strings.Repeat("x", maxBundle) + `"}`), -1, ""},
		"too deep":           {json.RawMessage(`{"format":"helix-tools","formatVersion":1,"x":` + deep + `,"tools":[]}`), -1, ""},
		"path as name":       {with(func(b *Bundle) { b.Tools[0].Definition.Name = "../../etc" }), 0, "name"},
		"path as icon":       {with(func(b *Bundle) { b.Tools[0].Icon = "../../x.png" }), 0, "icon"},
		"syntax":             {with(func(b *Bundle) { b.Tools[0].Definition.Code = "return (" }), 0, "code"},
		"capability":         {with(func(b *Bundle) { b.Tools[0].Definition.Capabilities = []string{"env:read"} }), 0, "capabilities"},
		"version":            {with(func(b *Bundle) { b.Tools[0].Version = "one" }), 0, "version"},
		"history version":    {with(func(b *Bundle) { b.Tools[0].History = []BundleVersion{{Version: "1.0.0", Definition: good.Definition}} }), 0, "history[0].version"},
		"wrong type":         {json.RawMessage(`{"format":"helix-tools","formatVersion":1,"tools":[{"version":3}]}`), -1, "tools.version"},
		"legacy, no port":    {json.RawMessage(`{"name":"a","code":"return 1","capabilities":["network:localhost"]}`), 0, "capabilities"},
		"legacy, no hosts":   {json.RawMessage(`{"name":"a","code":"return 1","capabilities":["internet_access"]}`), 0, "capabilities[0]"},
		"legacy, replaced":   {json.RawMessage(`{"name":"a","code":"return 1","capabilities":["mcp:tools"]}`), 0, "capabilities"},
		"legacy, wrong type": {json.RawMessage(`{"name":"a","code":"return 1","capabilities":[{}]}`), 0, "capabilities[0]"},
	} {
		_, err := b.Import(b.ctx, ImportParams{Bundle: c.raw})
		f := fault.As(err)
		d, ok := f.Details.(lifecycle.BundleProblem)
		if f.Kind != fault.Invalid || !ok || d.Item != c.item || d.Field != c.field {
			t.Errorf("%s: %v %+v, want item %d field %q", name, err, f.Details, c.item, c.field)
		}
	}
}

func TestLegacyTool(t *testing.T) {
	t.Parallel()
	b := setup(t)
	raw := json.RawMessage(`{"id":"x","name":"Old one","description":"d","code":"return 1","input_schema":{"type":"object"},"isEnabled":true,"sandbox_profile":"strict",
		"capabilities":["internet_access"],"allowed_hosts":["api.example.com","*.example.org"],"created_at":"2024-01-01"}`)
	got := b.add2(t, raw, lifecycle.Rename).Tools[0]
	if got.IsEnabled || got.SandboxProfile != Strict || !slices.Equal(got.Capabilities, []string{"network:https(*.example.org)", "network:https(api.example.com)"}) {
		t.Errorf("%+v", got)
	}
}

func TestImportFromAnAddress(t *testing.T) {
	t.Parallel()
	a := setup(t)
	tool := a.create(t, CreateParams{Name: "Net", Code: "return 1"})
	body := lifecycle.Text(a.export(t, true, tool.ID))
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) }))
	t.Cleanup(srv.Close)
	pool := x509.NewCertPool()
	pool.AddCert(srv.Certificate())
	b := setup(t, func(o *Options) {
		o.HTTP = func(h *safehttp.Options) { h.RootCAs, h.AllowLoopback = pool, func(int) bool { return true } }
	})
	r, err := b.Import(b.ctx, ImportParams{URL: srv.URL})
	if err != nil || r.Items[0].Name != "Net" {
		t.Fatalf("%+v %v", r, err)
	}
	body = json.RawMessage(strings.Replace(string(body), `"icon":""`, `"icon":"new"`, 1))
	_, err = b.Import(b.ctx, ImportParams{URL: srv.URL, DryRun: ptr(false)})
	wantKind(t, err, fault.Conflict)
	for _, bad := range []string{"http://127.0.0.1/x", "file:///etc/passwd", "ftp://a.example.com/x", "helix://tools/other"} {
		_, err := b.Import(b.ctx, ImportParams{URL: bad})
		wantKind(t, err, fault.Invalid)
	}
	closed := setup(t)
	_, err = closed.Import(closed.ctx, ImportParams{URL: srv.URL})
	wantKind(t, err, fault.Denied)
}

func testKey(seed byte) ed25519.PrivateKey {
	s := sha256.Sum256([]byte{seed})
	return ed25519.NewKeyFromSeed(s[:])
}

// signWith signs a bundle tool with a test key.
func signWith(t testing.TB, bt *BundleTool, key ed25519.PrivateKey, author string) {
	t.Helper()
	h, err := bt.Definition.definition().sum()
	if err != nil {
		t.Fatal(err)
	}
	bt.Author = author
	sig := &lifecycle.BundleSignature{Name: bt.Definition.Name, Version: bt.Version, Author: author, SignedAt: "2026-01-02T03:04:05Z", PublicKey: lifecycle.KeyText(key.Public().(ed25519.PublicKey))}
	text, err := sig.Text(h)
	if err != nil {
		t.Fatal(err)
	}
	sig.Signature = base64.StdEncoding.EncodeToString(ed25519.Sign(key, text))
	bt.Signature = sig
}

func TestSignatureVectors(t *testing.T) {
	t.Parallel()
	bt := BundleTool{Version: "1.2.3", Definition: BundleDefinition{
		Name: "Signed é", Description: "d", Language: TypeScript, Code: "export default () => 1;", Parameters: json.RawMessage(`{"type":"object"}`),
		Capabilities: []string{"network:https(a.example.com)"}, SandboxProfile: Standard, Limits: &Limits{WallMs: 100},
	}}
	signWith(t, &bt, testKey(1), "Ann")
	h, _ := bt.Definition.definition().sum()
	text, _ := bt.Signature.Text(h)
	golden(t, "signature.json", append(indent(t, map[string]any{
		"text": string(text), "publicKey": bt.Signature.PublicKey, "signature": bt.Signature.Signature, "fingerprint": lifecycle.Fingerprint(testKey(1).Public().(ed25519.PublicKey)),
	}), '\n'))
	state := func(x BundleTool) lifecycle.SignatureState {
		c, err := checker{}.checkCandidate(t.Context(), 0, x)
		if err != nil {
			t.Fatal(err)
		}
		return c.State
	}
	if s := state(bt); s != lifecycle.SignatureUnknown {
		t.Fatalf("state %s", s)
	}
	for name, change := range map[string]func(*BundleTool){
		"name":         func(x *BundleTool) { x.Definition.Name = "Signee é" },
		"description":  func(x *BundleTool) { x.Definition.Description = "e" },
		"language":     func(x *BundleTool) { x.Definition.Language = JavaScript },
		"code":         func(x *BundleTool) { x.Definition.Code = "export default () => 2;" },
		"parameters":   func(x *BundleTool) { x.Definition.Parameters = json.RawMessage(`{"type":"string"}`) },
		"capabilities": func(x *BundleTool) { x.Definition.Capabilities = []string{"network:https(b.example.com)"} },
		"profile":      func(x *BundleTool) { x.Definition.SandboxProfile = Permissive },
		"limits":       func(x *BundleTool) { x.Definition.Limits = &Limits{WallMs: 101} },
		"version":      func(x *BundleTool) { x.Version = "1.2.4" },
		"author":       func(x *BundleTool) { x.Author = "Ann " },
		"signed at":    func(x *BundleTool) { x.Signature.SignedAt = "2026-01-02T03:04:06Z" },
		"key": func(x *BundleTool) {
			x.Signature.PublicKey = lifecycle.KeyText(testKey(2).Public().(ed25519.PublicKey))
		},
		"signature":    func(x *BundleTool) { x.Signature.Signature = "A" + x.Signature.Signature[1:] },
		"no signature": func(x *BundleTool) { x.Signature.Signature = "" },
		"legacy flag":  func(x *BundleTool) { x.Signature.Legacy = true },
		"key, no key":  func(x *BundleTool) { x.Signature.PublicKey = "???" },
		"name in both": func(x *BundleTool) { x.Definition.Name, x.Signature.Name = "Other", "Other" },
	} {
		x := bt
		sig := *bt.Signature
		x.Signature = &sig
		change(&x)
		if s := state(x); s != lifecycle.SignatureInvalid {
			t.Errorf("%s changed: %s", name, s)
		}
	}
}

func TestLegacySignature(t *testing.T) {
	t.Parallel()
	key := testKey(3)
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	pemKey := string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	payload := "return 1|Tool|1.0.0|Ann|2024"
	sig := base64.StdEncoding.EncodeToString(ed25519.Sign(key, []byte(payload)))
	state := func(code, name, version, author, at string) lifecycle.SignatureState {
		s := &lifecycle.BundleSignature{Name: name, Version: version, Author: author, SignedAt: at, PublicKey: pemKey, Signature: sig, Legacy: true}
		return s.Verify([32]byte{}, code)
	}
	if s := state("return 1", "Tool", "1.0.0", "Ann", "2024"); s != lifecycle.SignatureLegacy {
		t.Fatalf("%s", s)
	}
	for _, c := range [][5]string{
		{"return 1|Tool", "1.0.0", "Ann", "2024", ""}, {"return 1", "Tool|1.0.0", "Ann", "2024", ""}, {"return 1", "Tool", "1.0.0|Ann", "2024", ""},
		{"return 1", "Tool", "1.0.0", "Ann|2024", ""}, {"return 1", "Tool|1.0.0|Ann", "2024", "", ""}, {"return 2", "Tool", "1.0.0", "Ann", "2024"},
		{"", "return 1|Tool", "1.0.0", "Ann", "2024"},
	} {
		if s := state(c[0], c[1], c[2], c[3], c[4]); s != lifecycle.SignatureInvalid {
			t.Errorf("%q: %s", c, s)
		}
	}
	b := setup(t)
	raw := lifecycle.Text(map[string]any{"name": "Tool", "version": "1.0.0", "author": "Ann", "signedAt": "2024", "code": "return 1", "signature": sig, "publicKey": pemKey, "capabilities": []string{"state"}})
	r := b.review2(t, raw, lifecycle.Rename)
	if r.Items[0].Signature.State != lifecycle.SignatureLegacy || !strings.Contains(strings.Join(r.Items[0].Warnings, " "), "treated as unsigned") {
		t.Errorf("%+v", r.Items[0])
	}
}

func TestTrust(t *testing.T) {
	t.Parallel()
	b := setup(t)
	key := testKey(4)
	bundleOf := func(name string, k ed25519.PrivateKey, author string) json.RawMessage {
		bt := BundleTool{Version: "1.0.0", Definition: BundleDefinition{Name: name, Code: "return '" + name + "'"}}
		if k != nil {
			signWith(t, &bt, k, author)
		}
		return lifecycle.Text(Bundle{Format: bundleFormat, FormatVersion: 1, Tools: []BundleTool{bt}})
	}
	run := func(tool Tool) error {
		if _, err := b.SetEnabled(b.ctx, SetEnabledParams{ToolID: tool.ID, Enabled: true}); err != nil {
			t.Fatal(err)
		}
		_, err := b.Execute(b.ctx, ExecuteParams{ToolID: &tool.ID})
		return err
	}
	unsigned := b.add2(t, bundleOf("Unsigned", nil, ""), lifecycle.Rename).Tools[0]
	_, err := b.Execute(b.ctx, ExecuteParams{ToolID: &unsigned.ID})
	if wantKind(t, err, fault.Denied).Details.(Denial).Reason != "disabled" {
		t.Error("an imported tool is not disabled")
	}
	f := wantKind(t, run(unsigned), fault.Denied)
	if d := f.Details.(Denial); d.PendingApprovalID == nil || d.Reason != "definition_changed" {
		t.Fatalf("%+v", d)
	}
	b.allow(t, unsigned, "once") // trust this version
	if err := run(unsigned); err != nil {
		t.Fatalf("after trusting the version: %v", err)
	}
	signed := b.add2(t, bundleOf("Signed", key, "Ann"), lifecycle.Rename).Tools[0]
	if signed.Signature.State != lifecycle.SignatureUnknown {
		t.Fatalf("%+v", signed.Signature)
	}
	wantKind(t, run(signed), fault.Denied)
	s, err := b.Signers(b.ctx, struct{}{})
	if err != nil || len(s.Signers) != 2 || !s.Signers[0].ThisDevice || s.Signers[1].Trusted || s.Signers[1].Name != "Ann" {
		t.Fatalf("%+v %v", s, err)
	}
	if _, err := b.TrustSigner(b.ctx, TrustSignerParams{PublicKey: signed.Signature.PublicKey, Name: "Ann", Trusted: true}); err != nil {
		t.Fatal(err)
	}
	if err := run(signed); err != nil {
		t.Fatalf("by a trusted signer: %v", err)
	}
	g, _ := b.Get(b.ctx, GetParams{ToolID: signed.ID})
	if g.Tool.Signature.State != lifecycle.SignatureTrusted {
		t.Errorf("%+v", g.Tool.Signature)
	}
	r := b.review2(t, bundleOf("Impostor", testKey(5), "Ann"), lifecycle.Rename)
	if !strings.Contains(strings.Join(r.Items[0].Warnings, " "), "with another key") {
		t.Errorf("a known name with a new key: %v", r.Items[0].Warnings)
	}
	bad := json.RawMessage(strings.Replace(string(bundleOf("Bad", key, "Ann")), "return 'Bad'", "return 'bad'", 1))
	if r := b.review2(t, bad, lifecycle.Rename); r.Items[0].Action != "blocked" || r.Items[0].Signature.State != lifecycle.SignatureInvalid {
		t.Errorf("%+v", r.Items[0])
	}
	_, err = b.Import(b.ctx, ImportParams{Bundle: bad, DryRun: ptr(false)})
	wantKind(t, err, fault.Invalid)
	// A clone keeps the signature until its first edit.
	c, err := b.Clone(b.ctx, CloneParams{ToolID: signed.ID})
	if err != nil || c.Tool.Signature.State != lifecycle.SignatureTrusted {
		t.Fatalf("clone %+v %v", c.Tool.Signature, err)
	}
	if u := b.update(t, c.Tool, `{"icon":"z","name":"Renamed"}`); u.Tool.Signature.State != lifecycle.SignatureTrusted {
		t.Errorf("a rename dropped it: %+v", u.Tool.Signature)
	}
	if u := b.update(t, c.Tool, `{"code":"return 5"}`); u.Tool.Signature.State != lifecycle.SignatureNone {
		t.Errorf("an edit kept it: %+v", u.Tool.Signature)
	}
	own := b.create(t, CreateParams{Name: "Own", Code: "return 1"})
	sig, err := b.Sign(b.ctx, ToolID{own.ID})
	if err != nil || len(sig.Fingerprint) != 64 {
		t.Fatal(err)
	}
	if g, _ := b.Get(b.ctx, GetParams{ToolID: own.ID}); g.Tool.Signature.State != lifecycle.SignatureTrusted || g.Tool.Signature.Fingerprint != sig.Fingerprint {
		t.Errorf("%+v", g.Tool.Signature)
	}
	_, err = b.TrustSigner(b.ctx, TrustSignerParams{PublicKey: "nonsense"})
	wantKind(t, err, fault.Invalid)
}

func TestShares(t *testing.T) {
	testkit.SkipRaced(t, "many runs of the engine, one after the other")
	t.Parallel()
	b := setup(t)
	other := storagetest.OtherUser(t, b.db)
	tool := b.create(t, CreateParams{Name: "Shared", Code: "return 1", Samples: []Sample{{Name: "private", Params: json.RawMessage(`{"p":"planted"}`)}}})
	sh, err := b.Share(b.ctx, ShareParams{ToolID: tool.ID, Access: AccessLink})
	if err != nil || sh.URL != "helix://tools/shared/"+sh.ShareID.String() || sh.Hub || !strings.Contains(sh.Note, "file") || sh.ShareID == tool.ID {
		t.Fatalf("%+v %v", sh, err)
	}
	b.update(t, tool, `{"code":"return 2"}`)
	r, err := b.ResolveShare(other, ResolveShareParams{URL: sh.URL})
	if err != nil || r.Preview.Items[0].DefinitionHash != tool.DefinitionHash || strings.Contains(string(lifecycle.Text(r)), "planted") {
		t.Fatalf("%s %v", lifecycle.Text(r), err)
	}
	if l, _ := b.List(other, ListParams{}); l.Total != 0 {
		t.Error("opening a link added something")
	}
	in, err := b.Import(other, ImportParams{ShareID: &sh.ShareID, DryRun: ptr(false)})
	if err != nil || in.Tools[0].Origin != OriginShare || in.Tools[0].IsEnabled || in.Tools[0].Code != "return 1" {
		t.Fatalf("%+v %v", in, err)
	}
	l, err := b.Shares(b.ctx, SharesParams{ToolID: &tool.ID})
	if err != nil || len(l.Shares) != 1 || l.Shares[0].Opens != 1 || l.Shares[0].State != "active" {
		t.Fatalf("%+v %v", l, err)
	}
	for _, bad := range []string{sh.URL + "/x", sh.URL + "?a=1", sh.URL + "#f", "helix://tools/shared/../" + sh.ShareID.String(), "helix://tools/shared/1", strings.ToUpper(sh.URL), "https://tools/shared/" + sh.ShareID.String(), " " + sh.URL, sh.URL + "\n"} {
		_, err := b.ResolveShare(b.ctx, ResolveShareParams{URL: bad})
		wantKind(t, err, fault.Invalid)
	}
	for _, guess := range []uuid.UUID{tool.ID, uuid.New(), {15: 1}} {
		_, err := b.ResolveShare(other, ResolveShareParams{ShareID: &guess})
		wantKind(t, err, fault.Unavailable)
	}
	if s, _ := b.Search(other, SearchParams{}); s.Total != 0 {
		t.Errorf("a link is listed: %+v", s)
	}
	pub, err := b.Share(b.ctx, ShareParams{ToolID: tool.ID, Access: AccessPublic, Version: "1.0.0"})
	if err != nil {
		t.Fatal(err)
	}
	if s, _ := b.Search(other, SearchParams{Query: "shar"}); s.Total != 1 || *s.Tools[0].ShareID != pub.ShareID {
		t.Errorf("%+v", s)
	}
	if _, err := b.Unshare(b.ctx, UnshareParams{ShareID: sh.ShareID}); err != nil {
		t.Fatal(err)
	}
	_, err = b.ResolveShare(b.ctx, ResolveShareParams{ShareID: &sh.ShareID})
	if f := wantKind(t, err, fault.NotFound); !strings.Contains(f.Message, "no longer shared") {
		t.Error(f.Message)
	}
	if err := b.db.Write(b.ctx, func(tx *storage.Tx) error {
		_, err := tx.Exec(`UPDATE custom_tool_shares SET expires_at = 1 WHERE id = ?`, pub.ShareID)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	_, err = b.ResolveShare(b.ctx, ResolveShareParams{ShareID: &pub.ShareID})
	wantKind(t, err, fault.NotFound)
	if s, _ := b.Search(other, SearchParams{}); s.Total != 0 {
		t.Errorf("an expired share is listed: %+v", s)
	}
	_, err = b.Share(b.ctx, ShareParams{ToolID: tool.ID, Access: AccessLink, ExpiresAt: ptr(tool.CreatedAt)})
	wantKind(t, err, fault.Invalid)
}

func TestImportIsAtomic(t *testing.T) {
	t.Parallel()
	b := setup(t, func(o *Options) { o.MaxTools = 2 })
	bd := Bundle{Format: bundleFormat, FormatVersion: 1}
	for i := range 3 {
		bd.Tools = append(bd.Tools, BundleTool{Version: "1.0.0", Definition: BundleDefinition{Name: "T" + itoa(i), Code: "return 1"}})
	}
	raw := lifecycle.Text(bd)
	b.review2(t, raw, lifecycle.Rename)
	_, err := b.Import(b.ctx, ImportParams{Bundle: raw, DryRun: ptr(false)})
	wantKind(t, err, fault.Limit)
	if l, _ := b.List(b.ctx, ListParams{}); l.Total != 0 {
		t.Errorf("%d tools of a failed import stayed", l.Total)
	}
}

func FuzzReadBundle(f *testing.F) {
	f.Add([]byte(`{"format":"helix-tools","formatVersion":1,"tools":[{"definition":{"name":"a","code":"return 1"},"version":"1.0.0"}]}`))
	f.Add([]byte(`{"name":"a","code":"return 1","capabilities":["state"]}`))
	f.Add([]byte(`{"format":"helix-tools","tools":[{"definition":null,"signature":{}}]}`))
	f.Add([]byte("{\"name\":\"\u0000\",\"code\":\"\\ud800\"}"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		list, err := checker{}.readBundle(t.Context(), raw)
		if err != nil {
			if !fault.Is(err, fault.Invalid) {
				t.Fatalf("%v", err)
			}
			return
		}
		for _, c := range list {
			if c.digest == "" || !c.examined.result.Valid {
				t.Fatalf("%+v", c)
			}
		}
	})
}
