package cli

import (
	"fmt"
	"strings"

	"github.com/google/uuid"

	"helix/backend/discovery"
)

type discoverCmd struct {
	Find    discoverFindCmd    `cmd:"" default:"withargs" help:"Find APIs and tools that can do something."`
	Request discoverRequestCmd `cmd:"" help:"Note that something is missing, so that candidates are looked for."`
	Queue   discoverQueueCmd   `cmd:"" help:"List what was requested."`
	Show    discoverShowCmd    `cmd:"" help:"Show a request with its candidates."`
	Accept  discoverAcceptCmd  `cmd:"" help:"Import a candidate. It runs only after its approval."`
	Reject  discoverRejectCmd  `cmd:"" help:"End a request without a tool."`
	Catalog discoverCatalogCmd `cmd:"" help:"Folders and lists in which APIs are looked for."`
}

type discoverFindCmd struct {
	Text   []string `arg:"" help:"What it should do, in a few words."`
	Limit  int      `default:"10"`
	Source []string `placeholder:"SOURCE" help:"catalog (built-in), directory (your catalogs) or imported (your tools). Default: all."`
}

func (d *discoverFindCmd) Run(c *command) error {
	p := discovery.SearchParams{Query: strings.Join(d.Text, " "), Sources: d.Source, Limit: d.Limit}
	return show(c, "discovery.search", p, func(r discovery.SearchResult) {
		c.printCandidates(r.Results)
		for _, x := range r.Skipped {
			c.say("%s: %s", plain(x.Source), plain(x.Reason))
		}
	})
}

func (c *command) printCandidates(list []discovery.Candidate) {
	if len(list) == 0 {
		c.say("No results. Import the description of an API with: helix openapi import FILE --op KEY")
		return
	}
	rows := make([][]string, len(list))
	for i, x := range list {
		rows[i] = []string{x.Ref, x.Title, first(x.Auth, "-"), strings.Join(x.Hosts, ", "), strings.Join(x.Why, ", "), cut(x.Description, 60)}
	}
	c.table([]string{"REF", "TITLE", "AUTH", "HOSTS", "MATCHES", "DESCRIPTION"}, rows)
}

type discoverRequestCmd struct {
	Text []string `arg:"" help:"What is missing."`
}

func (d *discoverRequestCmd) Run(c *command) error {
	return show(c, "discovery.request", discovery.RequestParams{CapabilityDescription: strings.Join(d.Text, " ")}, func(r discovery.RequestResult) {
		c.say("Requested. To see candidates: helix discover show %s", r.RequestID)
	})
}

type discoverQueueCmd struct {
	Status string `help:"Only requests in this state: pending, searching, found, failed or rejected."`
	Limit  int    `default:"50"`
	Offset int    `default:"0"`
}

func (d *discoverQueueCmd) Run(c *command) error {
	return show(c, "discovery.queue", discovery.QueueParams{Status: d.Status, Limit: d.Limit, Offset: d.Offset}, func(r discovery.QueueResult) {
		if len(r.Requests) == 0 {
			c.say("Nothing was requested.")
			return
		}
		rows := make([][]string, len(r.Requests))
		for i, x := range r.Requests {
			rows[i] = []string{x.RequestID.String(), x.Status, fmt.Sprint(len(x.Candidates)), x.RequestedBy, cut(x.CapabilityDescription, 60)}
		}
		c.table([]string{"ID", "STATE", "CANDIDATES", "BY", "WHAT IS MISSING"}, rows)
	})
}

type requestArg struct {
	ID uuid.UUID `arg:"" help:"ID of the request."`
}

type discoverShowCmd struct{ requestArg }

func (d *discoverShowCmd) Run(c *command) error {
	return show(c, "discovery.queue_get", discovery.RequestIDParams{RequestID: d.ID}, func(r discovery.Request) {
		c.fields("What is missing", r.CapabilityDescription, "State", r.Status, "Requested by", r.RequestedBy, "Chosen", r.Selected, "Error", r.Error)
		c.printCandidates(r.Candidates)
	})
}

type discoverAcceptCmd struct {
	requestArg
	Ref  string   `arg:"" help:"The candidate, such as catalog:open-meteo."`
	Op   []string `sep:"none" placeholder:"KEY" help:"An operation, such as \"get /v1/forecast\"; may be repeated. Default: all, if there are few."`
	Name string   `help:"Name of the tool."`
}

func (d *discoverAcceptCmd) Run(c *command) error {
	return show(c, "discovery.accept", discovery.AcceptParams{RequestID: d.ID, Ref: d.Ref, Operations: d.Op, Name: d.Name}, func(r discovery.AcceptResult) {
		if r.Status == discovery.StatusPending {
			c.say("Imported. It waits for your approval: helix manifest approve %s", r.ManifestID)
		} else {
			c.say("The tool is %s.", r.Status)
		}
	})
}

type discoverRejectCmd struct {
	requestArg
	Reason string `help:"Why, for the list."`
}

func (d *discoverRejectCmd) Run(c *command) error {
	return show(c, "discovery.reject", discovery.RejectParams{RequestID: d.ID, Reason: d.Reason}, func(discovery.RequestResult) { c.say("Rejected.") })
}

type discoverCatalogCmd struct {
	List    catalogListCmd    `cmd:"" help:"List the catalogs."`
	Add     catalogAddCmd     `cmd:"" help:"Look for APIs in a folder with descriptions and manifests, too."`
	AddList catalogAddListCmd `cmd:"" help:"Look for APIs in a list on the web, too. Needs the setting discovery.online."`
	Remove  catalogRemoveCmd  `cmd:"" help:"Remove a catalog. Tools that came from it stay."`
	Refresh catalogRefreshCmd `cmd:"" help:"Read a catalog again."`
}

func printCatalogs(c *command) func(discovery.CatalogsResult) {
	return func(r discovery.CatalogsResult) {
		if len(r.Catalogs) == 0 {
			c.say("No catalogs. Add a folder with: helix discover catalog add FOLDER")
			return
		}
		rows := make([][]string, len(r.Catalogs))
		for i, x := range r.Catalogs {
			rows[i] = []string{x.ID.String(), x.Kind, fmt.Sprint(x.Entries), x.Location, x.Error}
		}
		c.table([]string{"ID", "KIND", "APIS", "LOCATION", "ERROR"}, rows)
	}
}

type catalogListCmd struct{}

func (*catalogListCmd) Run(c *command) error {
	return show(c, "discovery.catalogs", nil, printCatalogs(c))
}

type catalogAddCmd struct {
	Folder string `arg:"" type:"path" help:"A folder."`
}

func (a *catalogAddCmd) Run(c *command) error {
	return show(c, "discovery.catalog_add", discovery.CatalogAddParams{Dir: a.Folder}, printCatalogs(c))
}

type catalogAddListCmd struct {
	URL string `arg:"" help:"Address, such as https://api.apis.guru/v2/list.json."`
}

func (a *catalogAddListCmd) Run(c *command) error {
	return show(c, "discovery.catalog_add", discovery.CatalogAddParams{ListURL: a.URL}, printCatalogs(c))
}

type catalogArg struct {
	ID uuid.UUID `arg:"" help:"ID of the catalog."`
}

type catalogRemoveCmd struct{ catalogArg }

func (a *catalogRemoveCmd) Run(c *command) error {
	return show(c, "discovery.catalog_remove", discovery.CatalogParams{CatalogID: a.ID}, printCatalogs(c))
}

type catalogRefreshCmd struct{ catalogArg }

func (a *catalogRefreshCmd) Run(c *command) error {
	return show(c, "discovery.catalog_refresh", discovery.CatalogParams{CatalogID: a.ID}, printCatalogs(c))
}
