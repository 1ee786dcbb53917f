"""Device profiles that do not go together with pools: several groups of one class, which a flavor with ``group_policy = isolate`` spreads
over as many providers. Of a pool, which is one provider, Placement gives it one group.

The flavors are Nova's, and nobody tells us of them: what is said is of the profile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from sqlalchemy import Connection

from cantle.model.profile import units
from cantle.store import profile, provider_pool


def warnings(connection: Connection) -> list[str]:
    """A sentence for each profile that asks for whole cards in several groups."""
    classes = provider_pool.poolable_classes(connection)
    found = []
    for one in profile.listed(connection, None, None):
        for resource_class, groups in sorted(_groups(one.groups, classes).items()):
            found.append(
                f"[placement] pool_identical is on, and device profile {one.name} asks for {resource_class} in {groups} groups: a flavor "
                f"that has it with group_policy = isolate fits only on hosts with {groups} kinds of cards. Say group_policy = none in the "
                f"flavor, or ask for resources:{resource_class} = {groups} in one group."
            )
    return found


def _groups(groups: Sequence[Mapping[str, str]], classes: Collection[str]) -> dict[str, int]:
    """By class of these, how many groups ask for it, where that is more than one."""
    asked = {(unit.group_id, unit.resource_class) for unit in units(groups)}
    counted = Counter(resource_class for _group, resource_class in asked if resource_class in classes)
    return {resource_class: count for resource_class, count in counted.items() if count > 1}
