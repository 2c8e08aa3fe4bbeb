"""Word lists of `clauses` and `requests`: English words, as people type them to agents."""

from __future__ import annotations

VERBS = frozenset(
    """add address adjust allow amend answer apply ask assign avoid bring build bump call change
    check cherry-pick clean clear close combine comment commit compare condense confirm continue
    convert copy cover create cut debug delete demonstrate deploy describe disable discuss
    do document draft drop edit enable ensure explain explore extend extract fetch figure file
    find fix focus follow force format generate get give go group handle help hold ignore
    implement import improve include inline insert inspect install integrate investigate keep
    leave limit link lint list log look make mark match merge mention mock move name note open
    optimize order output outline pause pick pin plan post prefer prepare present preserve print
    propose provide prune publish pull push put quote raise read rebase rebuild record redo
    reduce refactor refer reference refresh regenerate release remember remind remove rename
    reopen reorder reply report reproduce request research reset resolve respond restart restore
    restructure retry return reuse revert review rework rewrite run save scan search see send
    separate set share ship show simplify skip solve sort spawn split squash stage start stash
    stay stick stop store strip submit suggest summarize switch sync tag take tell test think
    touch track translate trim try tweak understand undo unstage update upgrade use validate
    verify view wait walk watch work wrap write""".split()
)
"""Verbs that begin an order."""

FILLER_WORDS = frozenset(
    """please pls ok okay yes yeah yep no sure great good nice thanks thank cool now well hey hi
    maybe want need like go ahead make sure also actually right let's lets know sorry really one
    two thing things here there i'd i'll i'm you're we're it's that's there's don't""".split()
)
"""Words that say nothing about what is asked, beside stop words."""

NEGATIONS = frozenset("not never no without avoid stop dont doesnt".split())

COMMON_STEMS = frozenset(
    """again already also anyth bit even ever everyth first full get giv last look many mention
    mor much next only per put sam see someth tak tim try way whol within""".split()
)
"""Stems that occur in requests of any kind: clauses that share one have nothing in common."""
