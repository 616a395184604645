"""The reference with one piece replaced, diagnosed as a failing implementation would be."""

from attest.boundary import JudgedImplementation
from attest.diagnosis.likeness import diagnose
from attest.diagnosis.trial import failing_case
from attest.judging.catalogue import assemble
from attest.judging.property import load_properties


def diagnosed(piece, criterion):
    """What the diagnosis says of the first property of a criterion that the piece fails."""
    impl = JudgedImplementation(assemble(piece, "stranger"))
    for property in load_properties()[criterion]:
        case = failing_case(property, impl)
        if case is not None:
            return diagnose(property, impl, case, seed=0)
    raise AssertionError(f"{criterion} does not fail")
