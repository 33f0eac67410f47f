package backend

import (
	"encoding/json"
	"testing"
	"time"

	"helix/backend/cloudsync"
	"helix/backend/cloudsync/hubtest"
	"helix/backend/fault"
	"helix/backend/lifecycle"
	"helix/backend/skills"
	"helix/backend/tools"
)

// A person shares a skill through the hub with another person, who imports it with its tool after a
// review. The link shows the skill as it was shared, and ends when it is revoked or the skill is deleted.
func TestSkillIsSharedThroughTheHub(t *testing.T) {
	t.Parallel()
	dsn := hubtest.Database(t)
	owner, other := newChain(t), newChain(t)
	owner.tool("adder", "export default () => 1")
	skill := owner.save("Adds up", `[{"stepId":"a","toolType":"custom","toolName":"adder"}]`)
	share := func(access lifecycle.Access) (skills.Share, error) {
		return owner.Skills.Share(owner.ctx, skills.ShareParams{SkillID: skill.SkillID, Access: access})
	}
	if _, err := share(lifecycle.AccessLink); !fault.Is(err, fault.Unavailable) {
		t.Errorf("shared without a hub: %v", err)
	}
	for _, c := range []*chain{owner, other} {
		if _, err := c.Sync.Setup(c.ctx, cloudsync.SetupParams{AdminDSN: dsn}); err != nil {
			t.Fatal(err)
		}
		c.ctx = c.as(c.LocalUser())
	}
	past := time.Now().Add(-time.Second)
	for name, p := range map[string]skills.ShareParams{
		"no access":          {SkillID: skill.SkillID},
		"an unknown access":  {SkillID: skill.SkillID, Access: "all"},
		"an expiry long ago": {SkillID: skill.SkillID, Access: lifecycle.AccessLink, ExpiresAt: &past},
	} {
		if _, err := owner.Skills.Share(owner.ctx, p); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := other.Skills.Share(other.ctx, skills.ShareParams{SkillID: skill.SkillID, Access: lifecycle.AccessLink}); !fault.Is(err, fault.NotFound) {
		t.Errorf("another person's skill was shared: %v", err)
	}
	link, err := share(lifecycle.AccessLink)
	if err != nil {
		t.Fatal(err)
	}
	public, err := share(lifecycle.AccessPublic)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := owner.Skills.UpdateComposite(owner.ctx, skills.SaveParams{Skill: json.RawMessage(`{"skillId":"` + skill.SkillID.String() + `","name":"Adds up","description":"edited","steps":[]}`)}); err != nil {
		t.Fatal(err)
	}
	open := func(s skills.Share, dryRun bool) (skills.ImportResult, error) {
		return other.Skills.Import(other.ctx, skills.ImportParams{URL: s.URL, DryRun: dryRun})
	}
	review, err := open(link, true)
	if err != nil || review.Name != "Adds up" || review.SkillID != nil || len(review.Errors) > 0 || review.Signer == "unsigned" {
		t.Fatalf("review: %+v %v", review, err)
	}
	if l, err := other.Skills.ListComposite(other.ctx, skills.ListParams{}); err != nil || l.Total != 0 {
		t.Errorf("the review added %d skills, %v", l.Total, err)
	}
	added, err := open(link, false)
	if err != nil || added.SkillID == nil {
		t.Fatalf("import: %+v %v", added, err)
	}
	got, err := other.Skills.GetMetadata(other.ctx, skills.SkillParams{SkillID: *added.SkillID})
	if err != nil || got.IsEnabled || len(got.Steps) != 1 || got.Steps[0].ToolName != "adder" {
		t.Errorf("imported: %+v %v", got, err)
	}
	if l, err := other.Tools.List(other.ctx, tools.ListParams{}); err != nil || l.Total != 1 || l.Tools[0].IsEnabled {
		t.Errorf("its tool: %+v %v", l, err)
	}
	search := func(c *chain, query string) []skills.Share {
		t.Helper()
		r, err := c.Skills.SearchPublic(c.ctx, skills.SearchPublicParams{Query: query})
		if err != nil || !r.Hub {
			t.Fatalf("search: %+v %v", r, err)
		}
		return r.Shared
	}
	if s := search(other, "adds"); len(s) != 1 || s[0].ShareID != public.ShareID || s[0].Description == "edited" {
		t.Errorf("only the public share is listed: %+v", s)
	}
	if s := search(other, "a%s"); len(s) != 0 {
		t.Errorf("wildcards: %+v", s)
	}
	if s := search(owner, ""); len(s) != 0 {
		t.Errorf("the owner's own are not other people's: %+v", s)
	}
	shares := func(c *chain) []skills.Share {
		t.Helper()
		r, err := c.Skills.Shares(c.ctx, skills.SharesParams{SkillID: &skill.SkillID})
		if err != nil || !r.Hub {
			t.Fatalf("shares: %+v %v", r, err)
		}
		return r.Shares
	}
	if s := shares(owner); len(s) != 2 || s[0].ShareID != public.ShareID || *s[0].SkillID != skill.SkillID {
		t.Errorf("shares: %+v", s)
	}
	if s := shares(other); len(s) != 0 {
		t.Errorf("another person sees the shares: %+v", s)
	}
	if _, err := other.Tools.ResolveShare(other.ctx, tools.ResolveShareParams{ShareID: &link.ShareID}); !fault.Is(err, fault.NotFound) {
		t.Errorf("a skill was opened as a tool: %v", err)
	}
	if _, err := other.Skills.Import(other.ctx, skills.ImportParams{URL: link.URL + "/more", DryRun: true}); !fault.Is(err, fault.Invalid) {
		t.Errorf("another link: %v", err)
	}
	if _, err := other.Skills.Unshare(other.ctx, skills.UnshareParams{ShareID: link.ShareID}); !fault.Is(err, fault.NotFound) {
		t.Errorf("another person ends a share: %v", err)
	}
	if _, err := owner.Skills.Unshare(owner.ctx, skills.UnshareParams{ShareID: link.ShareID}); err != nil {
		t.Fatal(err)
	}
	if _, err := open(link, true); !fault.Is(err, fault.NotFound) {
		t.Errorf("a revoked link: %v", err)
	}
	if _, err := open(public, true); err != nil {
		t.Errorf("another link of the skill: %v", err)
	}
	if _, err := owner.Skills.DeleteComposite(owner.ctx, skills.SkillParams{SkillID: skill.SkillID}); err != nil {
		t.Fatal(err)
	}
	if _, err := owner.Sync.Coordinate(owner.ctx, cloudsync.CoordinateParams{}); err != nil {
		t.Fatal(err)
	}
	if _, err := open(public, true); !fault.Is(err, fault.NotFound) {
		t.Errorf("the link of a deleted skill: %v", err)
	}
}
