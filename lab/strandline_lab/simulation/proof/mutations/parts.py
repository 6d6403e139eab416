"""Mutations that leave half of what is written in parts (Q9)."""

from __future__ import annotations

from typing import Final

from strandline_lab.simulation.proof.mutation import Mutation

_CREATION: Final = "strandline/controller/topics/creation.py"

_DIVIDING: Final = ("dividing",)

PARTS: Final = (
    Mutation(
        "the mark of a topic that is created in parts is removed before the last part",
        "Q9",
        _CREATION,
        """        for multi in multis:
            await write_part(term, multi)
            crash_point("controller.create.part")
        visible = SetData(path, znodes.dump_topic(node), version=0)
        await term.write(still_there(multis), stands, before=[visible, Delete(marker)])
""",
        """        for multi in multis:
            await write_part(term, multi)
            if multi is multis[0]:
                await session.write([Delete(marker)], partial(session.is_absent, marker))
        visible = SetData(path, znodes.dump_topic(node), version=0)
        await term.write(still_there(multis), stands, before=[visible])
""",
        workloads=_DIVIDING,
        seed=61,
    ),
    Mutation(
        "a part of a creation whose answer was lost counts as written",
        "Q9",
        _CREATION,
        "        return await term.session.exists(multi.operations[0].path) is not None\n",
        "        return True\n",
        workloads=_DIVIDING,
        seed=343,
    ),
    Mutation(
        "the mark of a topic that is deleted in parts is removed with the first part",
        "Q9",
        "strandline/controller/topics/deletion.py",
        """    rest = Step([Delete(path), Delete(marker), *(Delete(each.path) for each in fence)])
    return Whole.of([*steps, rest], _Removal(topic, fence))
""",
        """    rest = Step([Delete(path), *(Delete(each.path) for each in fence)])
    return Whole.of([Step([Delete(marker)]), *steps, rest], _Removal(topic, fence))
""",
        workloads=_DIVIDING,
        seed=623,
    ),
)
