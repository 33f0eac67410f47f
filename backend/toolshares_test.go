package backend

import (
	"context"
	"encoding/json"
	"testing"

	"helix/backend/cloudsync"
	"helix/backend/cloudsync/hubtest"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/tools"
)

// A person shares a tool through the hub with another person, who imports it after a review. The link
// pins the version, and ends when it is revoked or the tool is deleted.
func TestToolIsSharedThroughTheHub(t *testing.T) {
	t.Parallel()
	dsn := hubtest.Database(t)
	owner, other := start(t), start(t)
	as := func(b *Backend) context.Context {
		return identity.With(t.Context(), identity.Identity{User: b.DB.LocalUser().ID, Scopes: identity.Admin, Client: identity.ClientWindow})
	}
	tool, err := owner.Tools.Create(as(owner), tools.CreateParams{Name: "Adder", Description: "Adds", Code: "return 1", Parameters: json.RawMessage(`{"type":"object"}`), Samples: []tools.Sample{{Name: "planted", Params: json.RawMessage(`{}`)}}})
	if err != nil {
		t.Fatal(err)
	}
	alone, err := owner.Tools.Share(as(owner), tools.ShareParams{ToolID: tool.Tool.ID, Access: tools.AccessLink})
	if err != nil || alone.Hub {
		t.Fatalf("without a hub: %+v %v", alone, err)
	}
	for _, b := range []*Backend{owner, other} {
		if _, err := b.Sync.Setup(as(b), cloudsync.SetupParams{AdminDSN: dsn}); err != nil {
			t.Fatal(err)
		}
	}
	share := func(access tools.Access) tools.ShareResult {
		t.Helper()
		s, err := owner.Tools.Share(as(owner), tools.ShareParams{ToolID: tool.Tool.ID, Access: access})
		if err != nil || !s.Hub || s.Note != "" {
			t.Fatalf("share: %+v %v", s, err)
		}
		return s
	}
	link, public := share(tools.AccessLink), share(tools.AccessPublic)
	var edit tools.UpdateParams
	if err := json.Unmarshal([]byte(`{"toolId":"`+tool.Tool.ID.String()+`","baseVersion":"1.0.0","patch":{"code":"return 2"}}`), &edit); err != nil {
		t.Fatal(err)
	}
	if _, err := owner.Tools.Update(as(owner), edit); err != nil {
		t.Fatal(err)
	}
	open := func(s tools.ShareResult) (tools.ResolveShareResult, error) {
		return other.Tools.ResolveShare(as(other), tools.ResolveShareParams{URL: s.URL})
	}
	r, err := open(link)
	if err != nil || len(r.Preview.Items) != 1 || r.Preview.Items[0].DefinitionHash != tool.Tool.DefinitionHash {
		t.Fatalf("review: %+v %v", r, err)
	}
	if l, err := other.Tools.List(as(other), tools.ListParams{}); err != nil || l.Total != 0 {
		t.Errorf("opening a link added %d tools, %v", l.Total, err)
	}
	no := false
	in, err := other.Tools.Import(as(other), tools.ImportParams{ShareID: &link.ShareID, DryRun: &no})
	if err != nil || len(in.Tools) != 1 || in.Tools[0].Code != "return 1" || in.Tools[0].IsEnabled || in.Tools[0].Origin != tools.OriginShare || len(in.Tools[0].Samples) > 0 {
		t.Fatalf("import: %+v %v", in, err)
	}
	search := func(p tools.SearchParams) tools.SearchResult {
		t.Helper()
		s, err := other.Tools.Search(as(other), p)
		if err != nil || !s.Hub {
			t.Fatalf("search: %+v %v", s, err)
		}
		return s
	}
	if s := search(tools.SearchParams{Query: "add"}); s.Total != 1 || s.Tools[0].Mine || *s.Tools[0].ShareID != public.ShareID {
		t.Errorf("only the public share is listed: %+v", s)
	}
	if s := search(tools.SearchParams{Query: "a%r"}); s.Total != 0 {
		t.Errorf("wildcards: %+v", s)
	}
	if s := search(tools.SearchParams{Tags: []string{"none"}}); s.Total != 0 {
		t.Errorf("tags: %+v", s)
	}
	if s, err := owner.Tools.Search(as(owner), tools.SearchParams{}); err != nil || s.Total != 1 || !s.Tools[0].Mine {
		t.Errorf("the owner's own is listed once: %+v %v", s, err)
	}
	if _, err := open(alone); !fault.Is(err, fault.NotFound) {
		t.Errorf("a link made without a hub: %v", err)
	}
	if _, err := other.Tools.Unshare(as(other), tools.UnshareParams{ShareID: link.ShareID}); !fault.Is(err, fault.NotFound) {
		t.Errorf("another person ends a share: %v", err)
	}
	if _, err := owner.Tools.Unshare(as(owner), tools.UnshareParams{ShareID: link.ShareID}); err != nil {
		t.Fatal(err)
	}
	if _, err := open(link); !fault.Is(err, fault.NotFound) {
		t.Errorf("a revoked link: %v", err)
	}
	if _, err := open(public); err != nil {
		t.Errorf("another link of the tool: %v", err)
	}
	owner.Sync.Pause(as(owner), struct{}{}) //nolint:errcheck // only the background exchange must not mix in
	if _, err := owner.Tools.Delete(as(owner), tools.ToolID{ToolID: tool.Tool.ID}); err != nil {
		t.Fatal(err)
	}
	if _, err := owner.Sync.Coordinate(as(owner), cloudsync.CoordinateParams{}); err != nil {
		t.Fatal(err)
	}
	if _, err := open(public); !fault.Is(err, fault.NotFound) {
		t.Errorf("the link of a deleted tool: %v", err)
	}
}
