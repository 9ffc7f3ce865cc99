from judge_service.domain.case import Case
from judge_service.domain.judge import Judge


def test_a_changed_copy_has_a_hash_of_its_own() -> None:
    judge = Judge(name="j", backend="scripted", model="m1")
    case = Case(id="1", input={"x": 1})
    before = judge.content_hash, case.content_hash
    other = judge.model_copy(update={"model": "m2"})
    changed = case.model_copy(update={"input": {"x": 2}})
    assert other.content_hash == Judge(name="j", backend="scripted", model="m2").content_hash != before[0]
    assert changed.content_hash == Case(id="1", input={"x": 2}).content_hash != before[1]
    assert (judge.content_hash, case.content_hash) == before
    assert judge.model_copy().content_hash == judge.model_copy(deep=True).content_hash == before[0]


def test_what_a_reader_keeps_with_a_case_is_no_part_of_it() -> None:
    case, same, reader = Case(id="1", input={"x": 1}), Case(id="1", input={"x": 1}), object()
    case.keep_reading(reader, "read")
    assert case.reading_of(reader) == "read"
    assert case.reading_of(object()) is None
    assert case == same
    assert case.model_dump() == same.model_dump()
    assert case.model_dump_json() == same.model_dump_json()
    assert repr(case) == repr(same)
    assert case.model_copy(update={"input": {"x": 2}}).reading_of(reader) is None
    assert case.model_copy(deep=True).reading_of(reader) is None
