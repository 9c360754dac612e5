"""Why something that was asked of the server is not done."""


class Refusal(Exception):  # noqa: N818 (it is an answer, not a mistake)
    """status: HTTP's number for it. sentence: for whoever asked."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence
